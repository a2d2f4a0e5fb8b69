"""Takes a reservation up again of which the store has no memory."""

from collections.abc import Mapping

import msgspec

from weir_ratelimiter.domain.admission import debit, hold
from weir_ratelimiter.domain.change import Change, Move, WindowMove
from weir_ratelimiter.domain.entry_bucket import bucket_of
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.reservation import Entry, Reservation


def rebuild(
    reservation: Reservation, limits: Mapping[str, Limit], levels: Levels, now_ms: int
) -> Change:
    """Debit an admitted reservation again, whatever the levels: its work is running already.

    In a window that is not known it holds nothing; its charge will count all the same.
    """
    moves: list[Move] = []
    counts: list[WindowMove] = []
    entries: list[Entry] = []
    for entry in reservation.entries:
        if entry.kind is Kind.WINDOW:
            count = levels.window(entry.key, entry.window)
            if count is None:
                entries.append(msgspec.structs.replace(entry, amount=0))
                continue
            counts.append(hold(entry.key, entry.window, count, entry.amount))
        elif entry.kind is Kind.BUCKET:
            bucket = bucket_of(entry, limits, levels, now_ms)
            if bucket is not None:
                moves.append(debit(entry.key, bucket, entry.amount))
        entries.append(entry)
    rebuilt = msgspec.structs.replace(reservation, entries=tuple(entries))
    return Change(now_ms, tuple(moves), rebuilt, None, tuple(counts))
