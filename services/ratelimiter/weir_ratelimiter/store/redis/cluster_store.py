"""The store on a cluster: a tenant's limits lie in one slot, those of all tenants in another.

No script sees both. A request that shared limits apply to has a reservation in each place, of
the same id: in the shared place for nobody, with no event for the ledger. The shared one is made
first and ended first, so that no limit is ever passed and an end that was cut in two is made
whole by whoever repeats it. Half a reservation that nobody repeats lapses by itself.

The shared half is undone only by the call that made it, and only while no other call has found
it there: a repeat counts on what it found, and an undo may arrive late.
"""

from collections.abc import Callable, Sequence
from typing import Self

from msgspec.structs import replace

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.change import WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import (
    Adjusted,
    Backlog,
    Ended,
    ExtendedReservation,
    Limits,
    LimitState,
    Mark,
    OutboxEntry,
    Reserved,
)
from weir_ratelimiter.store.redis.keyspace import NOBODY, is_shared
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore


class ClusterStore:
    """See `Store`."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    @classmethod
    async def open(
        cls,
        url: str,
        options: RedisOptions | None = None,
        *,
        forced_ms: Callable[[], int] | None = None,
    ) -> Self:
        """See `RedisStore.open`; the URL is `redis+cluster://[user:password@]host:port`."""
        return cls(await RedisStore.open(url, options, forced_ms=forced_ms))

    @property
    def epoch(self) -> str:
        """See `Store`."""
        return self._store.epoch

    async def whole_epoch(self) -> str:
        """See `Store`."""
        return await self._store.whole_epoch()

    @property
    def states_lost(self) -> int:
        """See `RedisStore`."""
        return self._store.states_lost

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        """See `Store`."""
        own, shared = _split(command)
        if not shared.limits:
            return await self._store.reserve(command, dry_run=dry_run)
        everybodys = await self._store.reserve(shared, dry_run=dry_run)
        if everybodys.unseeded:
            return everybodys
        if dry_run or everybodys.reservation is None:
            return _both(command, everybodys, await self._store.reserve(own, dry_run=True))
        try:
            tenants = await self._store.reserve(own)
        except WeirError as error:
            # Where nobody answered, the tenant's half may have been made.
            if error.reason is not Reason.LIMITER_UNAVAILABLE:
                await self._give_back(everybodys, shared)
            raise
        if tenants.reservation is None:
            await self._give_back(everybodys, shared)
        return _both(command, everybodys, tenants)

    async def seed(
        self, tenant_id: str, moves: Sequence[WindowMove], *, at_least: bool = False
    ) -> None:
        """See `Store`."""
        await self._store.seed(tenant_id, moves, at_least=at_least)

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """See `Store`.

        What the shared limits grant and the tenant's refuse stays held until the end.
        """
        own, shared = _halves(record)
        if not shared.entries:
            return await self._store.extend(record, extension, limits)
        everybodys = await self._store.extend(shared, extension, limits)
        if everybodys.shortfalls:
            extension = replace(extension, additional_tokens=0)
        tenants = await self._store.extend(own, extension, limits)
        return ExtendedReservation(
            _whole(tenants.reservation, everybodys.reservation),
            everybodys.shortfalls + tenants.shortfalls,
            everybodys.in_debt or tenants.in_debt,
        )

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """See `Store`."""
        own, shared = _halves(record)
        if shared.entries:
            await self._store.settle(shared, report, limits)
        return await self._store.settle(own, report, limits)

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """See `Store`."""
        own, shared = _halves(record)
        if shared.entries:
            await self._store.refund(shared, outcome, b"", limits)
        return await self._store.refund(own, outcome, lifecycle, limits)

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        """See `Store`. Halves in the shared place are ended here: they are nobody's."""
        found = await self._store.lapsed(most)
        for reservation in found:
            if reservation.subject.tenant_id == NOBODY:
                await self._store.expire(reservation, {})
        return [r for r in found if r.subject.tenant_id != NOBODY]

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        """See `Store`."""
        return await self._store.expire(reservation, limits)

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        """See `Store`; entries of shared limits are not among them."""
        return await self._store.find(tenant_id, reservation_id)

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """See `Store`; entries of shared limits are not among them."""
        return await self._store.open_reservations(tenant_id, after, most)

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """See `Store`."""
        shared = [limit for limit in limits if is_shared(limit.key)]
        own = [limit for limit in limits if not is_shared(limit.key)]
        found: list[LimitState] = []
        for place, some in ((tenant_id, own), (NOBODY, shared)):
            if some:
                found += await self._store.states(place, some)
        return _in_order(limits, found)

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        """See `Store`."""
        return await self._store.adjust(adjustment)

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """See `Store`."""
        return await self._store.outbox(most)

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """See `Store`."""
        await self._store.acknowledge(ids)

    async def backlog(self) -> Backlog:
        """See `Store`."""
        return await self._store.backlog()

    async def mark(self, tenant_id: str) -> Mark:
        """See `Store`."""
        return await self._store.mark(tenant_id)

    async def is_past(self, mark: Mark) -> bool:
        """See `Store`."""
        return await self._store.is_past(mark)

    async def close(self) -> None:
        """See `Store`."""
        await self._store.close()

    async def _give_back(self, everybodys: Reserved, shared: ReserveCommand) -> None:
        reservation = everybodys.reservation
        if reservation is None or everybodys.replayed:
            return
        limits = {limit.key: limit for limit in shared.limits}
        await self._store.undo(Record.of(reservation, self.epoch), limits)


def _nobody(subject: Subject) -> Subject:
    return Subject(NOBODY, "", "", subject.model, subject.model_version)


def _split(command: ReserveCommand) -> tuple[ReserveCommand, ReserveCommand]:
    own = tuple([limit for limit in command.limits if not is_shared(limit.key)])
    shared = tuple([limit for limit in command.limits if is_shared(limit.key)])
    return (
        replace(command, limits=own),
        replace(command, limits=shared, subject=_nobody(command.subject)),
    )


def _halves(record: Record) -> tuple[Record, Record]:
    own = tuple([entry for entry in record.entries if not is_shared(entry.key)])
    shared = tuple([entry for entry in record.entries if is_shared(entry.key)])
    return (
        replace(record, entries=own),
        replace(record, entries=shared, subject=_nobody(record.subject)),
    )


def _both(command: ReserveCommand, everybodys: Reserved, tenants: Reserved) -> Reserved:
    if tenants.unseeded:
        return tenants
    reservation = tenants.reservation
    if reservation is not None and everybodys.reservation is not None:
        reservation = _whole(reservation, everybodys.reservation)
    return Reserved(
        reservation,
        everybodys.shortfalls + tenants.shortfalls,
        everybodys.shadowed + tenants.shadowed,
        replayed=tenants.replayed,
        states=_in_order(command.limits, [*everybodys.states, *tenants.states]),
    )


def _in_order(limits: Sequence[Limit], states: Sequence[LimitState]) -> Sequence[LimitState]:
    """The states of these limits; none if one is missing."""
    by_key = {state.limit.key: state for state in states}
    return [by_key[limit.key] for limit in limits] if len(by_key) == len(limits) else ()


def _whole(tenants: Reservation, everybodys: Reservation) -> Reservation:
    return replace(tenants, entries=(*everybodys.entries, *tenants.entries))
