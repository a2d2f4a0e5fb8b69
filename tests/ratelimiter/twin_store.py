"""Two stores that are told the same, and must answer the same."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from weir_core.errors import WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.change import WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.shortfall import Shortfall
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
    Store,
)

T = TypeVar("T")


class TwinStore:
    """A `Store`; the answers are those of the first, and the second is held against them.

    How long a lease is likely to be held is an estimate, which may differ.
    """

    def __init__(self, first: Store, second: Store) -> None:
        self.first = first
        self.second = second

    @property
    def epoch(self) -> str:
        return self.first.epoch

    async def whole_epoch(self) -> str:
        await self.second.whole_epoch()
        return await self.first.whole_epoch()

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        return await self._same(lambda store: store.reserve(command, dry_run=dry_run))

    async def seed(
        self, tenant_id: str, moves: Sequence[WindowMove], *, at_least: bool = False
    ) -> None:
        await self._same(lambda store: store.seed(tenant_id, moves, at_least=at_least))

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        return await self._same(
            lambda store: store.extend(self._record(record, store), extension, limits)
        )

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        return await self._same(
            lambda store: store.settle(self._record(record, store), report, limits)
        )

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        return await self._same(
            lambda store: store.refund(self._record(record, store), outcome, lifecycle, limits)
        )

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        found = await self.first.lapsed(most)
        others = {r.id: r for r in await self.second.lapsed(most)}
        assert {r.id: _entries_sorted(r) for r in found} == {
            key: _entries_sorted(r) for key, r in others.items()
        }
        return found

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        return await self._same(lambda store: store.expire(reservation, limits))

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        return await self._same(lambda store: store.find(tenant_id, reservation_id))

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        return await self._same(lambda store: store.open_reservations(tenant_id, after, most))

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        return await self._same(lambda store: store.states(tenant_id, limits))

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        return await self._same(lambda store: store.adjust(adjustment))

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """Those of the first; the second has the same events under other ids."""
        found, others = await self.first.outbox(most), await self.second.outbox(most)
        assert sorted((e.event for e in found), key=repr) == sorted(
            (e.event for e in others), key=repr
        )
        return found

    async def acknowledge(self, ids: Sequence[str]) -> None:
        events = {e.id: e.event for e in await self.first.outbox(1_000_000)}
        known = [events[name] for name in ids]
        others = [e.id for e in await self.second.outbox(1_000_000) if e.event in known]
        await self.first.acknowledge(ids)
        await self.second.acknowledge(others)

    async def backlog(self) -> Backlog:
        found, other = await self.first.backlog(), await self.second.backlog()
        assert found.events == other.events
        return found

    async def mark(self, tenant_id: str) -> Mark:
        return await self.first.mark(tenant_id)

    async def is_past(self, mark: Mark) -> bool:
        return await self.first.is_past(mark)

    async def close(self) -> None:
        await self.first.close()
        await self.second.close()

    def _record(self, record: Record, store: Store) -> Record:
        if record.epoch != self.first.epoch:
            return record
        return msgspec.structs.replace(record, epoch=store.epoch)

    async def _same(self, ask: Callable[[Store], Awaitable[T]]) -> T:
        found, other = await _outcome(ask(self.first)), await _outcome(ask(self.second))
        assert _comparable(other) == _comparable(found)
        if isinstance(found, WeirError):
            raise found
        return found


async def _outcome(asked: Awaitable[T]) -> T | WeirError:
    try:
        return await asked
    except WeirError as error:
        return error


def _comparable(answer: object) -> object:
    if isinstance(answer, WeirError):
        return answer.reason, str(answer)
    if isinstance(answer, list | tuple):
        return [_comparable(one) for one in answer]
    if isinstance(answer, Shortfall) and answer.limit.kind is Kind.LEASE:
        return msgspec.structs.replace(answer, wait_ms=0)
    if isinstance(answer, LimitState) and answer.limit.kind is Kind.LEASE:
        return msgspec.structs.replace(answer, whole_in_ms=0)
    if isinstance(answer, Reservation):
        return _entries_sorted(answer)
    if isinstance(answer, Reserved):
        # A store may tell the states beforehand, or be asked for them.
        answer = msgspec.structs.replace(answer, states=())
    if isinstance(answer, Reserved | ExtendedReservation | Ended | Adjusted):
        return [_comparable(getattr(answer, name)) for name in answer.__struct_fields__]
    return answer


def _entries_sorted(reservation: Reservation) -> Reservation:
    """Stores may keep entries in an order of their own."""
    entries = tuple(sorted(reservation.entries, key=lambda entry: (entry.key, entry.window)))
    return msgspec.structs.replace(reservation, entries=entries)
