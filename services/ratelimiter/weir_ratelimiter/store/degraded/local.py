"""The account of one ratelimiter while the shared store is away: a share of every limit."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.change import Count, WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Quality
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import (
    Ended,
    ExtendedReservation,
    Limits,
    LimitState,
    Reserved,
    Store,
)
from weir_ratelimiter.store.degraded import refusals
from weir_ratelimiter.store.degraded.credit import Credit
from weir_ratelimiter.store.degraded.mode import Mode
from weir_ratelimiter.store.degraded.pending import Pending, Refund, Settle
from weir_ratelimiter.store.degraded.pending_log import PendingLog
from weir_ratelimiter.store.degraded.replicas import ReplicaCount
from weir_ratelimiter.store.degraded.shares import share_of

_TENDED_AT_ONCE = 100


class LocalAccount:
    """Decides alone, and keeps for the shared store what it decided.

    What was reserved in the shared store and ends here is rebuilt from its record; budgets
    are left out of that, as the shared store holds them already. Levels stay from one absence to
    the next, so that a store that comes and goes does not lend a budget's credit twice.

    Args:
        store: of this process alone.
        pending: what the shared store has still to be told.
        credit: what may be spent of budgets.
        count: how many ratelimiters share the limits.
        mode: since when the shared store is away.
        now_ms: the store's clock.
        admits: whether new requests are admitted at all.
    """

    def __init__(
        self,
        store: Store,
        pending: PendingLog,
        credit: Credit,
        count: ReplicaCount,
        mode: Mode,
        now_ms: Callable[[], int],
        *,
        admits: bool,
    ) -> None:
        self._store = store
        self._pending = pending
        self._credit = credit
        self._count = count
        self._mode = mode
        self._now_ms = now_ms
        self._admits = admits

    @property
    def epoch(self) -> str:
        """See `Store`."""
        return self._store.epoch

    async def reserve(self, command: ReserveCommand, *, dry_run: bool) -> Reserved:
        """See `Store`.

        Raises:
            WeirError: LIMITER_UNAVAILABLE also if the request is larger than what is left of a
                budget's credit, or too much has still to be told to the shared store.
        """
        self._check_admits()
        limits = tuple([self._lent(limit) for limit in command.limits])
        command = msgspec.structs.replace(command, limits=limits)
        reserved = await self._decide(command, dry_run=dry_run)
        for short in reserved.shortfalls:
            if short.limit.kind is Kind.WINDOW:
                raise refusals.beyond_credit(short, self._mode.away_ms(self._now_ms()))
        reservation = reserved.reservation
        if reservation is not None and self._pending.get(reservation.id) is None:
            self._pending.put(Pending(Record.of(reservation, self.epoch), self._now_ms()))
        return msgspec.structs.replace(reserved, degraded=True)

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """See `Store`."""
        extended = await self._store.extend(
            _without_windows(record), extension, self._all_lent(limits)
        )
        self._pending.put(self._news(record).extended(extended.reservation, self._now_ms()))
        return extended

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """See `Store`."""
        self._pending.put(self._news(record).with_end(Settle(report)))
        ended = await self._store.settle(_without_windows(record), report, self._all_lent(limits))
        if report.quality is not Quality.EXACT and not ended.already:
            self._put_charge(record, ended.reservation, report.lifecycle)
        return ended

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """See `Store`."""
        self._pending.put(self._news(record).with_end(Refund(outcome, lifecycle)))
        ended = await self._store.refund(
            _without_windows(record), outcome, lifecycle, self._all_lent(limits)
        )
        if ended.reservation.dispatched and not ended.already:
            self._put_charge(record, ended.reservation, lifecycle)
        return ended

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        """See `Store`."""
        return await self._store.find(tenant_id, reservation_id)

    async def holds(self, tenant_id: str, reservation_id: str) -> bool:
        """Whether a reservation lives here: extended here, not ended, its leases not lapsed."""
        found = await self._store.find(tenant_id, reservation_id)
        return found is not None and found.open and not found.expired_at(self._now_ms())

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """See `Store`."""
        return await self._store.open_reservations(tenant_id, after, most)

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """See `Store`; of this ratelimiter's share."""
        states = await self._store.states(tenant_id, [self._lent(limit) for limit in limits])
        return [msgspec.structs.replace(state, unseeded=None) for state in states]

    async def tend(self) -> None:
        """End what lapsed, and drop the events: the shared store writes those that count."""
        for lapsed in await self._store.lapsed(_TENDED_AT_ONCE):
            await self._store.expire(lapsed, {})
        entries = await self._store.outbox(_TENDED_AT_ONCE)
        while entries:
            await self._store.acknowledge([entry.id for entry in entries])
            entries = await self._store.outbox(_TENDED_AT_ONCE)

    async def close(self) -> None:
        """See `Store`."""
        try:
            await self._store.close()
        finally:
            self._pending.close()

    async def _decide(self, command: ReserveCommand, *, dry_run: bool) -> Reserved:
        """Windows count from zero here: what is lent of them is a credit of its own."""
        reserved = await self._store.reserve(command, dry_run=dry_run)
        if not reserved.unseeded:
            return reserved
        moves = [WindowMove(limit.key, w.id, Count()) for limit, w in reserved.unseeded]
        await self._store.seed(command.subject.tenant_id, moves)
        return await self._store.reserve(command, dry_run=dry_run)

    def _check_admits(self) -> None:
        away_ms = self._mode.away_ms(self._now_ms())
        if not self._admits:
            raise refusals.closed(away_ms)
        if self._pending.full:
            raise refusals.too_much_to_tell(len(self._pending), away_ms)

    def _news(self, record: Record) -> Pending:
        return self._pending.get(record.id) or Pending(record, self._now_ms())

    def _put_charge(self, record: Record, ended: Reservation, lifecycle: bytes) -> None:
        """Have the shared store charge the same, though it knows of less progress."""
        if ended.settlement is None:
            return
        news = self._news(record)
        settlement = ended.settlement
        report = Report(
            settlement.charged,
            Quality.ESTIMATED,
            settlement.outcome,
            lifecycle or news.lifecycle,
        )
        self._pending.put(msgspec.structs.replace(news, ended=Settle(report)))

    def _lent(self, limit: Limit) -> Limit:
        replicas = self._count.value
        if limit.kind is Kind.WINDOW:
            return self._credit.lent(limit, replicas, self._now_ms())
        return share_of(limit, replicas)

    def _all_lent(self, limits: Limits) -> Mapping[str, Limit]:
        return {key: self._lent(limit) for key, limit in limits.items()}


def _without_windows(record: Record) -> Record:
    entries = tuple([entry for entry in record.entries if entry.kind is not Kind.WINDOW])
    return msgspec.structs.replace(record, entries=entries)
