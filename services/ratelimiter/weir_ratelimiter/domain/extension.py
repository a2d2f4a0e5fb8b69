"""Extend: a sign of life, progress, and more output while the request streams."""

from collections.abc import Mapping

import msgspec

from weir_ratelimiter.domain.admission import HOLD_WAIT_MS, debit, hold
from weir_ratelimiter.domain.change import Bucket, Change, Count, Move, WindowMove
from weir_ratelimiter.domain.entry_bucket import bucket_of
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import Kind, Limit, Resource
from weir_ratelimiter.domain.reservation import Entry, Reservation
from weir_ratelimiter.domain.shortfall import Shortfall
from weir_ratelimiter.domain.usage import Usage

_OUTPUT = (
    Resource.TOKENS,
    Resource.OUTPUT_TOKENS,
    Resource.COST,
    Resource.IN_FLIGHT_TOKENS,
)


class Extension(msgspec.Struct, frozen=True, gc=False):
    """News of one running reservation.

    Attributes:
        progress: tokens so far, cumulative.
        additional_tokens: output to have reserved beyond `progress`; 0 is a heartbeat.
        dispatched: a worker has it.
        may_owe: what does not fit is granted as debt, within the limit's `max_debt`.
        ttl_ms: new life of the leases; None keeps that of Reserve.
        lifecycle: serialised life-cycle record for a sweep; empty keeps the last one.
    """

    progress: Usage
    additional_tokens: int = 0
    dispatched: bool = False
    may_owe: bool = False
    ttl_ms: int | None = None
    lifecycle: bytes = b""


class Extended(msgspec.Struct, frozen=True, gc=False):
    """Result of an extension.

    Attributes:
        reservation: with its leases renewed, even if tokens are refused.
        change: to be written in any case.
        shortfalls: limits that refused the additional tokens; empty if they were granted.
    """

    reservation: Reservation
    change: Change
    shortfalls: tuple[Shortfall, ...]
    in_debt: bool


def extend(
    reservation: Reservation,
    extension: Extension,
    limits: Mapping[str, Limit],
    levels: Levels,
    now_ms: int,
) -> Extended:
    """Extend an open, unlapsed reservation.

    Output beyond what is reserved that ran already is debited without asking; output to come
    is debited from all layers or from none. Asking again for the same changes nothing.
    """
    produced = extension.progress.completion_tokens
    ran_beyond = max(0, produced - reservation.output_tokens)
    secured = reservation.output_tokens + ran_beyond
    target = min(produced + extension.additional_tokens, reservation.max_new_tokens)
    extra = max(0, target - secured)
    wanted = _Wanted(reservation, limits, levels, now_ms)
    shortfalls, owed = wanted.refusals(ran_beyond, extra, extension.may_owe)
    granted = 0 if shortfalls else extra
    moves, counts, entries = wanted.debits(ran_beyond + granted)
    updated = msgspec.structs.replace(
        _news(reservation, extension, now_ms),
        entries=entries,
        output_tokens=secured + granted,
        debt_tokens=reservation.debt_tokens + owed,
    )
    change = Change(now_ms, moves, updated, None, counts)
    return Extended(updated, change, shortfalls, owed > 0)


class _Wanted:
    """The output limits of one reservation, each read once: its buckets, windows and holds."""

    def __init__(
        self,
        reservation: Reservation,
        limits: Mapping[str, Limit],
        levels: Levels,
        now_ms: int,
    ) -> None:
        self._entries = reservation.entries
        self._price = reservation.price
        self._limits = limits
        self._now_ms = now_ms
        self._buckets: dict[str, Bucket] = {}
        self._counts: dict[str, Count] = {}
        self._held: dict[str, int] = {}
        for entry in reservation.entries:
            if entry.resource not in _OUTPUT:
                continue
            if entry.kind is Kind.WINDOW:
                count = levels.window(entry.key, entry.window)
                if count is not None:
                    self._counts[entry.key] = count
            elif entry.kind is Kind.HOLD:
                self._held[entry.key] = levels.units_held(entry.key)
            elif entry.kind is Kind.BUCKET:
                bucket = bucket_of(entry, limits, levels, now_ms)
                if bucket is not None:
                    self._buckets[entry.key] = bucket

    def refusals(self, before: int, extra: int, may_owe: bool) -> tuple[tuple[Shortfall, ...], int]:
        """Limits in which `extra` tokens do not fit after `before`, and the debt to be made.

        The debt is in output tokens: the largest part of `extra` that did not fit.
        """
        short: list[Shortfall] = []
        owed = 0
        for entry in self._entries if extra else ():
            limit = self._limits.get(entry.key)
            if limit is None or limit.kind is not entry.kind:
                continue
            if limit.shadow or not self._counts_output(entry):
                continue
            units, units_before = self._units(entry, extra), self._units(entry, before)
            free = self._free(entry, limit) - units_before
            if free >= units:
                continue
            missing = units - max(0, free)
            if may_owe and units - free <= limit.max_debt:
                owed = max(owed, -(-missing * extra // units))
                continue
            wait_ms = self._wait_ms(entry, limit, units, units_before)
            short.append(Shortfall(limit, units, limit.capacity - free, wait_ms))
        return tuple(short), 0 if short else owed

    def debits(
        self, amount: int
    ) -> tuple[tuple[Move, ...], tuple[WindowMove, ...], tuple[Entry, ...]]:
        """Take `amount` output tokens from every bucket, and hold them in every window.

        What a reservation has of a hold is in its entry alone.
        """
        if amount == 0:
            return (), (), self._entries
        moves: list[Move] = []
        counts: list[WindowMove] = []
        entries: list[Entry] = []
        for entry in self._entries:
            if not self._counts_output(entry):
                entries.append(entry)
                continue
            units = self._units(entry, amount)
            bucket = self._buckets.get(entry.key)
            if bucket is None and entry.key in self._counts:
                counts.append(hold(entry.key, entry.window, self._counts[entry.key], units))
            elif bucket is not None:
                moves.append(debit(entry.key, bucket, units))
            entries.append(msgspec.structs.replace(entry, amount=entry.amount + units))
        return tuple(moves), tuple(counts), tuple(entries)

    def _counts_output(self, entry: Entry) -> bool:
        return any(entry.key in known for known in (self._buckets, self._counts, self._held))

    def _units(self, entry: Entry, tokens: int) -> int:
        if entry.resource is Resource.COST:
            return self._price.most(0, tokens)
        return tokens

    def _free(self, entry: Entry, limit: Limit) -> int:
        bucket = self._buckets.get(entry.key)
        if bucket is not None:
            return bucket.level
        if entry.key in self._held:
            return limit.capacity - self._held[entry.key]
        count = self._counts[entry.key]
        return limit.capacity - count.used - count.held

    def _wait_ms(self, entry: Entry, limit: Limit, units: int, before: int) -> int | None:
        if entry.key in self._held:
            return HOLD_WAIT_MS
        bucket = self._buckets.get(entry.key)
        if bucket is None:
            return _window_wait_ms(entry, limit, units, self._now_ms)
        return bucket.shape.wait_ms(bucket.shape.debited(bucket.state, before), units)


def _window_wait_ms(entry: Entry, limit: Limit, units: int, now_ms: int) -> int | None:
    """Until a new request for as much fits: the reservation stays in the window that it is in."""
    if limit.calendar is None or units > limit.capacity:
        return None
    window = limit.calendar.window(now_ms)
    return window.end_ms - now_ms if entry.window == window.id else 0


def _news(reservation: Reservation, extension: Extension, now_ms: int) -> Reservation:
    progress = reservation.progress.at_least(extension.progress)
    ttl_ms = reservation.ttl_ms if extension.ttl_ms is None else extension.ttl_ms
    return msgspec.structs.replace(
        reservation,
        expires_ms=now_ms + ttl_ms,
        ttl_ms=ttl_ms,
        dispatched=reservation.dispatched or extension.dispatched or progress != Usage(),
        progress=progress,
        lifecycle=extension.lifecycle or reservation.lifecycle,
    )
