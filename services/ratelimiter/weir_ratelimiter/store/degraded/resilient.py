"""A shared store while it answers, and a local account on a share of the limits while not."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.change import WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.away import StoreAway
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
from weir_ratelimiter.store.degraded.credit import Credit
from weir_ratelimiter.store.degraded.local import LocalAccount
from weir_ratelimiter.store.degraded.metrics import DegradedMetrics
from weir_ratelimiter.store.degraded.mode import Mode
from weir_ratelimiter.store.degraded.pending_log import PendingLog
from weir_ratelimiter.store.degraded.replay import Replay
from weir_ratelimiter.store.degraded.shared import SharedStore

T = TypeVar("T")


class ResilientStore:
    """See `Store`.

    What the shared store does not answer in time is decided by the local account at once, and
    told to the shared store later: a call that it did get all the same is found there by its id.
    The ledger's events, adjustments and the sweep are matters of the shared store alone.
    """

    def __init__(
        self,
        shared: SharedStore,
        local: LocalAccount,
        pending: PendingLog,
        replay: Replay,
        *,
        credit: Credit,
        mode: Mode,
        metrics: DegradedMetrics,
    ) -> None:
        self._shared = shared
        self._local = local
        self._pending = pending
        self._replay = replay
        self._credit = credit
        self._mode = mode
        self._metrics = metrics

    @property
    def epoch(self) -> str:
        """See `Store`."""
        store = self._shared.store
        return self._local.epoch if self._mode.degraded or store is None else store.epoch

    async def whole_epoch(self) -> str:
        """See `Store`."""
        return await self._shared.call(lambda store: store.whole_epoch())

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        """See `Store`."""
        reserved = await self._either(
            "reserve",
            lambda store: store.reserve(command, dry_run=dry_run),
            lambda: self._local.reserve(command, dry_run=dry_run),
        )
        if not reserved.degraded:
            self._credit.note(reserved.states)
        return reserved

    async def seed(
        self, tenant_id: str, moves: Sequence[WindowMove], *, at_least: bool = False
    ) -> None:
        """See `Store`."""
        await self._shared.call(lambda store: store.seed(tenant_id, moves, at_least=at_least))

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """See `Store`. What lapsed in the shared store while it was away goes on here."""
        try:
            return await self._either(
                "extend",
                lambda store: store.extend(record, extension, limits),
                lambda: self._local.extend(record, extension, limits),
            )
        except WeirError as error:
            if error.reason is not Reason.RESERVATION_EXPIRED:
                raise
            if not await self._local.holds(record.subject.tenant_id, record.id):
                raise
        return await self._local.extend(record, extension, limits)

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """See `Store`."""
        return await self._end(
            "settle",
            record,
            lambda store: store.settle(record, report, limits),
            lambda: self._local.settle(record, report, limits),
        )

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """See `Store`."""
        return await self._end(
            "refund",
            record,
            lambda store: store.refund(record, outcome, lifecycle, limits),
            lambda: self._local.refund(record, outcome, lifecycle, limits),
        )

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        """See `Store`; none before the shared store knows what became of them meanwhile."""
        if not self._replay.caught_up:
            return ()
        try:
            return await self._shared.batch(lambda store: store.lapsed(most))
        except StoreAway:
            return ()

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        """See `Store`."""
        return await self._shared.call(lambda store: store.expire(reservation, limits))

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        """See `Store`."""
        return await self._either(
            "find",
            lambda store: store.find(tenant_id, reservation_id),
            lambda: self._local.find(tenant_id, reservation_id),
        )

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """See `Store`; while the shared store is away, those that this process saw since."""
        return await self._either(
            "open_reservations",
            lambda store: store.open_reservations(tenant_id, after, most),
            lambda: self._local.open_reservations(tenant_id, after, most),
        )

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """See `Store`."""
        try:
            states = await self._shared.call(lambda store: store.states(tenant_id, limits))
        except StoreAway:
            return await self._local.states(tenant_id, limits)
        self._credit.note(states)
        return states

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        """See `Store`."""
        return await self._shared.call(lambda store: store.adjust(adjustment))

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """See `Store`."""
        return await self._shared.batch(lambda store: store.outbox(most))

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """See `Store`."""
        await self._shared.batch(lambda store: store.acknowledge(ids))

    async def backlog(self) -> Backlog:
        """See `Store`."""
        return await self._shared.batch(lambda store: store.backlog())

    async def mark(self, tenant_id: str) -> Mark:
        """See `Store`."""
        return await self._shared.batch(lambda store: store.mark(tenant_id))

    async def is_past(self, mark: Mark) -> bool:
        """See `Store`."""
        return await self._shared.batch(lambda store: store.is_past(mark))

    async def close(self) -> None:
        """See `Store`."""
        try:
            await self._shared.close()
        finally:
            await self._local.close()

    async def _end(
        self,
        operation: str,
        record: Record,
        ask_shared: Callable[[Store], Awaitable[Ended]],
        ask_local: Callable[[], Awaitable[Ended]],
    ) -> Ended:
        try:
            ended = await self._shared.call(ask_shared)
        except StoreAway:
            self._metrics.decided(operation)
            return await ask_local()
        news = self._pending.get(record.id)
        if news is not None:
            self._pending.drop(news)
        return ended

    async def _either(
        self,
        operation: str,
        ask_shared: Callable[[Store], Awaitable[T]],
        ask_local: Callable[[], Awaitable[T]],
    ) -> T:
        try:
            return await self._shared.call(ask_shared)
        except StoreAway:
            self._metrics.decided(operation)
            return await ask_local()
