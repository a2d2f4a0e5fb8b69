"""Reserve: every layer is evaluated, then all are debited or none."""

from collections.abc import Iterable

import msgspec

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.change import Bucket, Count, Move, WindowMove
from weir_ratelimiter.domain.demand import Amounts
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.price import FREE, Price
from weir_ratelimiter.domain.reservation import Entry, Reservation, State
from weir_ratelimiter.domain.shortfall import Shortfall
from weir_ratelimiter.domain.subject import Subject

HOLD_WAIT_MS = 1_000
"""When to ask for units of a hold again: nobody knows when the requests that have them end."""


class ReserveCommand(msgspec.Struct, frozen=True, gc=False):
    """A request for admission, its limits resolved and its static checks passed.

    Attributes:
        limits: buckets, windows, lease sets and holds that apply, in the order of evaluation.
        amounts: units asked of each resource.
    """

    id: str
    request_id: str
    subject: Subject
    fingerprint: bytes
    limits: tuple[Limit, ...]
    amounts: Amounts
    prompt_tokens: int
    output_tokens: int
    max_new_tokens: int
    ttl_ms: int
    price_version: int
    price: Price = FREE
    requests: int = 1


class Evaluation(msgspec.Struct, frozen=True, gc=False):
    """What all limits say to one command.

    Attributes:
        shortfalls: limits that refuse; empty if the command is admitted.
        shadowed: shadow limits that would have refused; nothing is debited from them.
        unseeded: windows of which nothing is known; if there are any, nothing is decided.
        moves, counts, entries: debits and holds to make if it is admitted.
    """

    shortfalls: tuple[Shortfall, ...]
    shadowed: tuple[Shortfall, ...]
    unseeded: tuple[tuple[Limit, Window], ...]
    moves: tuple[Move, ...]
    counts: tuple[WindowMove, ...]
    entries: tuple[Entry, ...]


def evaluate(command: ReserveCommand, levels: Levels, now_ms: int) -> Evaluation:
    """Ask every limit; debit nothing. A limit on something not asked for is passed over."""
    draft = _Draft(levels, now_ms)
    amounts = command.amounts
    for limit in command.limits:
        amount = amounts[limit.resource]
        if amount == 0:
            continue
        if limit.kind is Kind.BUCKET:
            draft.ask_bucket(limit, amount)
        elif limit.kind is Kind.LEASE:
            draft.ask_leases(limit, amount)
        elif limit.kind is Kind.HOLD:
            draft.ask_hold(limit, amount)
        elif limit.calendar is not None:
            draft.ask_window(limit, amount, limit.calendar.window(now_ms))
    return draft.evaluation()


class _Draft:
    """Collects what each limit says."""

    def __init__(self, levels: Levels, now_ms: int) -> None:
        self._levels = levels
        self._now_ms = now_ms
        self._short: list[Shortfall] = []
        self._unseeded: list[tuple[Limit, Window]] = []
        self._moves: list[Move] = []
        self._counts: list[WindowMove] = []
        self._entries: list[Entry] = []

    def ask_bucket(self, limit: Limit, amount: int) -> None:
        bucket = self._levels.bucket(limit, self._now_ms)
        needed = min(amount, limit.shape.capacity) if limit.overdraws else amount
        if needed > bucket.state.level:
            self._short.append(_bucket_shortfall(limit, amount, needed, bucket, self._now_ms))
            return
        self._moves.append(debit(limit.key, bucket, amount))
        self._entries.append(Entry(limit.key, limit.kind, limit.resource, amount))

    def ask_leases(self, limit: Limit, amount: int) -> None:
        held = self._levels.leases_held(limit.key, self._now_ms)
        if held + amount > limit.shape.capacity:
            wait_ms = self._levels.lease_wait_ms(limit.key, self._now_ms)
            self._short.append(Shortfall(limit, amount, held, wait_ms))
            return
        self._entries.append(Entry(limit.key, limit.kind, limit.resource, amount))

    def ask_hold(self, limit: Limit, amount: int) -> None:
        held = self._levels.units_held(limit.key)
        needed = min(amount, limit.capacity) if limit.overdraws else amount
        if held + needed > limit.capacity:
            self._short.append(Shortfall(limit, amount, held, HOLD_WAIT_MS))
            return
        self._entries.append(Entry(limit.key, limit.kind, limit.resource, amount))

    def ask_window(self, limit: Limit, amount: int, window: Window) -> None:
        count = self._levels.window(limit.key, window.id)
        if count is None:
            self._unseeded.append((limit, window))
            return
        if count.used + count.held + amount > limit.shape.capacity:
            self._short.append(_window_shortfall(limit, amount, count, window, self._now_ms))
            return
        self._counts.append(hold(limit.key, window.id, count, amount))
        self._entries.append(Entry(limit.key, limit.kind, limit.resource, amount, window.id))

    def evaluation(self) -> Evaluation:
        return Evaluation(
            tuple([short for short in self._short if not short.limit.shadow]),
            tuple([short for short in self._short if short.limit.shadow]),
            tuple(self._unseeded),
            tuple(self._moves),
            tuple(self._counts),
            tuple(self._entries),
        )


def admit(command: ReserveCommand, evaluation: Evaluation, now_ms: int) -> Reservation:
    """The reservation of a command that no limit refuses; the debits are in `evaluation`."""
    return Reservation(
        id=command.id,
        request_id=command.request_id,
        subject=command.subject,
        fingerprint=command.fingerprint,
        state=State.RESERVED,
        entries=evaluation.entries,
        prompt_tokens=command.prompt_tokens,
        output_tokens=command.output_tokens,
        max_new_tokens=command.max_new_tokens,
        created_ms=now_ms,
        expires_ms=now_ms + command.ttl_ms,
        ttl_ms=command.ttl_ms,
        price_version=command.price_version,
        price=command.price,
        requests=command.requests,
    )


def check_replay(existing: Reservation, fingerprint: bytes, *, lapsed: bool) -> None:
    """Check that a repeated Reserve may have the reservation that it made.

    One that has ended is not an admission any more: running under it would be free.

    Raises:
        WeirError: RESERVATION_CONFLICT if the id was used for other contents or its request
            has ended, RESERVATION_EXPIRED if its leases have lapsed.
    """
    if existing.fingerprint != fingerprint:
        raise WeirError(
            Reason.RESERVATION_CONFLICT,
            "request_id was used before with other contents; use a new one for a new request",
            field="request_id",
        )
    if lapsed or existing.state is State.EXPIRED:
        raise WeirError(
            Reason.RESERVATION_EXPIRED,
            f"the reservation lapsed {existing.ttl_ms} ms after its last sign of life; "
            "reserve again under a new request_id, or extend sooner or with a longer ttl",
            field="request_id",
        )
    if not existing.open:
        raise WeirError(
            Reason.RESERVATION_CONFLICT,
            f"the request of this id is {existing.state.name.lower()} already; "
            "use a new request_id",
            field="request_id",
        )


def static_shortfalls(limits: Iterable[Limit], amounts: Amounts) -> list[Shortfall]:
    """Limits that `amounts` can never fit in, whatever their level: contexts and capacities."""
    return [
        Shortfall(limit, amounts[limit.resource], 0, None)
        for limit in limits
        if amounts[limit.resource] > limit.shape.capacity and not limit.shadow
    ]


def debit(key: str, bucket: Bucket, amount: int) -> Move:
    """Take `amount` units out of a refilled bucket, into debt if need be."""
    return Move(key, amount, Bucket(bucket.shape, bucket.shape.debited(bucket.state, amount)))


def hold(key: str, window: str, count: Count, amount: int) -> WindowMove:
    """Hold `amount` units more in a window."""
    return WindowMove(key, window, Count(count.used, count.held + amount))


def _window_shortfall(
    limit: Limit, amount: int, count: Count, window: Window, now_ms: int
) -> Shortfall:
    wait_ms = window.end_ms - now_ms if amount <= limit.capacity else None
    return Shortfall(limit, amount, count.used + count.held, wait_ms)


def _bucket_shortfall(
    limit: Limit, amount: int, needed: int, bucket: Bucket, now_ms: int
) -> Shortfall:
    wait = bucket.shape.wait_ms(bucket.state, needed)
    if wait is not None:
        wait += max(0, bucket.state.at_ms - now_ms)
    return Shortfall(limit, amount, limit.capacity - bucket.level, wait)
