"""The end of a reservation: Settle, Refund and the sweep.

A correction (charged minus reserved, signed) goes to every layer unconditionally: it may leave
debt, which refuses later requests, and is never forgotten. What is given back is counted before
the level is clamped at the capacity.
"""

from collections.abc import Mapping

import msgspec

from weir_core.bucket import MAX_UNITS
from weir_ratelimiter.domain.change import (
    Bucket,
    Change,
    Count,
    EventKind,
    LedgerEvent,
    Move,
    WindowMove,
)
from weir_ratelimiter.domain.demand import charges
from weir_ratelimiter.domain.entry_bucket import bucket_of
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import HELD, Kind, Limit
from weir_ratelimiter.domain.reservation import Entry, Reservation, Settlement, State
from weir_ratelimiter.domain.usage import Quality, Usage

OUTCOME_EXPIRED = 8
"""`weir.common.v1.OUTCOME_EXPIRED`."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """How a request ended, as its caller says.

    Attributes:
        usage: the worker's count; None with quality UNKNOWN, and only then.
        outcome: number of `weir.common.v1.Outcome`.
        lifecycle: serialised life-cycle record; empty keeps the last one.
    """

    usage: Usage | None
    quality: Quality
    outcome: int
    lifecycle: bytes = b""


class Ending(msgspec.Struct, frozen=True, gc=False):
    """An ended reservation, and the change that ends it."""

    reservation: Reservation
    change: Change


def settle(
    reservation: Reservation,
    report: Report,
    limits: Mapping[str, Limit],
    levels: Levels,
    now_ms: int,
) -> Ending:
    """Charge what ran; `reservation` is in any state but SETTLED.

    After an expiry or a refund, the difference to what that charged is corrected, once.
    """
    ending = Settlement(
        charged=_charge(reservation, report),
        reported=report.usage,
        quality=Quality.EXACT if report.quality is Quality.EXACT else Quality.ESTIMATED,
        outcome=report.outcome,
        settled_ms=now_ms,
        late=not reservation.open,
    )
    lifecycle = report.lifecycle or reservation.lifecycle
    requests = reservation.requests
    return _end(reservation, State.SETTLED, ending, requests, lifecycle, limits, levels)


def refund(
    reservation: Reservation,
    outcome: int,
    lifecycle: bytes,
    limits: Mapping[str, Limit],
    levels: Levels,
    now_ms: int,
) -> Ending:
    """Give an open reservation back whole, its request included.

    Once it was dispatched there is work to pay for: it is settled by its progress instead.
    """
    if reservation.dispatched:
        report = Report(None, Quality.UNKNOWN, outcome, lifecycle)
        return settle(reservation, report, limits, levels, now_ms)
    ending = Settlement(Usage(), None, Quality.EXACT, outcome, now_ms)
    lifecycle = lifecycle or reservation.lifecycle
    return _end(reservation, State.REFUNDED, ending, 0, lifecycle, limits, levels)


def expire(
    reservation: Reservation, limits: Mapping[str, Limit], levels: Levels, now_ms: int
) -> Ending:
    """End an open reservation that nobody settled: by its progress, or whole if none began."""
    ran = reservation.dispatched
    charged = unreported(reservation) if ran else Usage()
    ending = Settlement(charged, None, Quality.ESTIMATED, OUTCOME_EXPIRED, now_ms)
    requests = reservation.requests if ran else 0
    return _end(reservation, State.EXPIRED, ending, requests, reservation.lifecycle, limits, levels)


def unreported(reservation: Reservation) -> Usage:
    """What is charged when nobody counted: the prompt as reserved, output as last reported."""
    return reservation.progress.at_least(Usage(prompt_tokens=reservation.prompt_tokens))


def _charge(reservation: Reservation, report: Report) -> Usage:
    if report.usage is None:
        return unreported(reservation)
    if report.quality is Quality.ESTIMATED:
        return report.usage.at_least(reservation.progress)
    return report.usage


def _end(
    reservation: Reservation,
    state: State,
    ending: Settlement,
    requests: int,
    lifecycle: bytes,
    limits: Mapping[str, Limit],
    levels: Levels,
) -> Ending:
    moves: list[Move] = []
    counts: list[WindowMove] = []
    entries: list[Entry] = []
    costs = charges(ending.charged, requests, reservation.price)
    # A late settlement corrects them once more; after a settlement nothing does.
    final = state is State.SETTLED
    for entry in reservation.entries:
        if entry.kind in HELD:
            continue
        charge = costs[entry.resource]
        if entry.kind is Kind.WINDOW:
            counts.extend(_charged(entry, charge, levels, held=reservation.open))
        else:
            bucket = bucket_of(entry, limits, levels, ending.settled_ms)
            if bucket is None:
                continue
            moves.extend(_correction(entry, bucket, charge - entry.amount))
        if not final:
            entries.append(msgspec.structs.replace(entry, amount=charge))
    ended = msgspec.structs.replace(
        reservation,
        state=state,
        entries=tuple(entries),
        settlement=ending,
        lifecycle=b"",
    )
    event = _event(reservation, ending, requests, lifecycle)
    return Ending(ended, Change(ending.settled_ms, tuple(moves), ended, event, tuple(counts)))


def _charged(entry: Entry, charge: int, levels: Levels, *, held: bool) -> tuple[WindowMove, ...]:
    """Charge to the window of the entry what it held, or correct what it was charged before.

    Nothing for a window that is not known: the charge is in the ledger.
    """
    count = levels.window(entry.key, entry.window)
    if count is None:
        return ()
    if held:
        used, still_held = count.used + charge, count.held - entry.amount
    else:
        used, still_held = count.used + charge - entry.amount, count.held
    return (WindowMove(entry.key, entry.window, Count(min(used, MAX_UNITS), still_held)),)


def _correction(entry: Entry, bucket: Bucket, amount: int) -> tuple[Move, ...]:
    if amount == 0:
        return ()
    shape = bucket.shape
    if amount > 0:
        state = shape.debited(bucket.state, amount)
    else:
        state = shape.credited(bucket.state, -amount)
    return (Move(entry.key, amount, Bucket(shape, state)),)


def _event(
    reservation: Reservation, ending: Settlement, requests: int, lifecycle: bytes
) -> LedgerEvent:
    before = reservation.settlement
    # What never ran was charged no request.
    requests_before = reservation.requests if before and reservation.dispatched else 0
    return LedgerEvent(
        reservation_id=reservation.id,
        kind=EventKind.CHARGE if before is None else EventKind.ADJUST,
        request_id=reservation.request_id,
        subject=reservation.subject,
        charged=ending.charged,
        previous=Usage() if before is None else before.charged,
        quality=ending.quality,
        outcome=ending.outcome,
        price_version=reservation.price_version,
        created_ms=reservation.created_ms,
        settled_ms=ending.settled_ms,
        lifecycle=lifecycle,
        price=reservation.price,
        requests=requests - requests_before,
    )
