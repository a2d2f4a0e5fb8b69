"""The store of one machine: everything in memory, every decision in a journal first.

One writer. A decision is computed from the state, appended to the journal, and only then
applied; nothing else can run in between. If it cannot be appended, it was not made.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from weir_ratelimiter.domain.adjustment import Adjustment, adjust, check_repeated
from weir_ratelimiter.domain.admission import ReserveCommand, admit, check_replay, evaluate
from weir_ratelimiter.domain.change import Change, Count, WindowMove
from weir_ratelimiter.domain.extension import Extension, extend
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.rebuild import rebuild
from weir_ratelimiter.domain.reservation import LONGEST_TTL_MS, Reservation, State
from weir_ratelimiter.domain.settlement import Ending, Report, expire, refund, settle
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
    outbox_full,
)
from weir_ratelimiter.store.endings import forgotten, over
from weir_ratelimiter.store.limit_state import limit_state
from weir_ratelimiter.store.memory_log import MemoryLog

_ONLY_STREAM = 0


class MemoryStore:
    """See `Store`. `now_ms` should not jump; if it does, nothing is minted or held for ever."""

    def __init__(self, log: MemoryLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._state = log.state
        self._now_ms = now_ms

    @property
    def epoch(self) -> str:
        """See `Store`."""
        return self._log.epoch

    async def whole_epoch(self) -> str:
        """See `Store`."""
        return self.epoch

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        """See `Store`."""
        now_ms = self._now_ms()
        existing = self._state.reservations.get(command.id)
        if existing is not None:
            lapsed = existing.open and self._state.has_lapsed(existing, now_ms)
            check_replay(existing, command.fingerprint, lapsed=lapsed)
            await self._log.durable()
            return Reserved(existing, replayed=True)
        evaluation = evaluate(command, self._state, now_ms)
        if evaluation.unseeded:
            return Reserved(None, unseeded=evaluation.unseeded)
        if evaluation.shortfalls and not dry_run:
            self._restart_buckets(command.limits, now_ms)
        if evaluation.shortfalls or dry_run:
            return Reserved(None, evaluation.shortfalls, evaluation.shadowed)
        self._check_backlog()
        reservation = admit(command, evaluation, now_ms)
        change = Change(now_ms, evaluation.moves, reservation, None, evaluation.counts)
        await self._commit(change)
        # Of this very moment, in which the buckets stand as they were just debited.
        states = [self._limit_state(limit, now_ms) for limit in command.limits]
        return Reserved(reservation, (), evaluation.shadowed, states=states)

    async def seed(
        self, tenant_id: str, moves: Sequence[WindowMove], *, at_least: bool = False
    ) -> None:
        """See `Store`."""
        news = []
        for move in moves:
            known = self._state.window(move.key, move.window)
            if known is None:
                news.append(move)
            elif at_least and known.used < move.count.used:
                raised = Count(move.count.used, known.held)
                news.append(WindowMove(move.key, move.window, raised))
        if news:
            await self._commit(Change(self._now_ms(), (), None, None, tuple(news)))

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """See `Store`."""
        now_ms = self._now_ms()
        reservation = self._known(record, limits, now_ms)
        if not reservation.open or self._state.has_lapsed(reservation, now_ms):
            raise over(reservation)
        extended = extend(reservation, extension, limits, self._state, now_ms)
        await self._commit(extended.change)
        return ExtendedReservation(extended.reservation, extended.shortfalls, extended.in_debt)

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """See `Store`."""
        now_ms = self._now_ms()
        reservation = self._known(record, limits, now_ms)
        ending = reservation.settlement
        if reservation.state is State.SETTLED and ending is not None:
            await self._log.durable()
            differs = report.usage is not None and report.usage != ending.reported
            return Ended(reservation, already=True, conflict=differs)
        return await self._end(settle(reservation, report, limits, self._state, now_ms))

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """See `Store`."""
        now_ms = self._now_ms()
        reservation = self._known(record, limits, now_ms)
        if not reservation.open:
            await self._log.durable()
            return Ended(reservation, already=True)
        return await self._end(refund(reservation, outcome, lifecycle, limits, self._state, now_ms))

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        """See `Store`."""
        now_ms = self._now_ms()
        self._shorten(now_ms)
        return self._state.lapsed(now_ms, most)

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        """See `Store`."""
        now_ms = self._now_ms()
        current = self._state.reservations.get(reservation.id)
        if current is None or not current.open or not self._state.has_lapsed(current, now_ms):
            return None
        ended = await self._end(expire(current, limits, self._state, now_ms))
        return ended.reservation

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        """See `Store`."""
        found = self._state.reservations.get(reservation_id)
        return found if found is not None and found.subject.tenant_id == tenant_id else None

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """See `Store`."""
        later = [
            reservation
            for reservation in self._state.open.values()
            if reservation.subject.tenant_id == tenant_id
            and (reservation.created_ms, reservation.id) > after
        ]
        return heapq.nsmallest(most, later, key=lambda r: (r.created_ms, r.id))

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """See `Store`."""
        now_ms = self._now_ms()
        return [self._limit_state(limit, now_ms) for limit in limits]

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        """See `Store`."""
        now_ms = self._now_ms()
        made = self._state.grants.get((adjustment.subject.tenant_id, adjustment.id))
        if made is not None:
            check_repeated(adjustment, made)
            await self._log.durable()
            units = made.units
        else:
            change = adjust(adjustment, self._state, now_ms)
            units = 0 if change.event is None else change.event.units
            await self._commit(change)
        state = self._limit_state(adjustment.limit, now_ms)
        return Adjusted(state, units, replayed=made is not None)

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """See `Store`."""
        oldest = itertools.islice(self._state.outbox.items(), most)
        return [OutboxEntry(str(sequence), event) for sequence, event in oldest]

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """See `Store`."""
        known = tuple(s for s in map(int, ids) if s in self._state.outbox)
        if known:
            self._log.acknowledge(known)
            await self._log.durable()

    async def backlog(self) -> Backlog:
        """See `Store`."""
        oldest = next(iter(self._state.outbox.values()), None)
        return Backlog(len(self._state.outbox), None if oldest is None else oldest.settled_ms)

    async def mark(self, tenant_id: str) -> Mark:
        """See `Store`."""
        return {_ONLY_STREAM: self._state.next_sequence - 1}

    async def is_past(self, mark: Mark) -> bool:
        """See `Store`."""
        oldest = next(iter(self._state.outbox), None)
        return oldest is None or oldest > mark[_ONLY_STREAM]

    async def maintain(self) -> None:
        """Bring the journal to the disk and compact it when due; for a periodic task.

        Raises:
            WeirError, OSError: the disk failed.
        """
        await self._log.sync()
        if self._log.compaction_due:
            await self._log.compact(self._now_ms())

    def stats(self) -> dict[str, int]:
        """Sizes and sums, for metrics."""
        return self._state.totals(self._now_ms()) | {"journal_bytes": self._log.journal_bytes}

    async def close(self) -> None:
        """See `Store`."""
        await asyncio.to_thread(self._log.close)

    def _known(self, record: Record, limits: Limits, now_ms: int) -> Reservation:
        """The reservation of a record; rebuilt if this state never saw it."""
        found = self._state.reservations.get(record.id)
        if found is not None:
            return found
        if record.epoch == self.epoch and record.created_ms <= self._state.forgotten_upto_ms:
            raise forgotten(record)
        change = rebuild(record.rebuilt(now_ms), limits, self._state, now_ms)
        self._log.commit(change)
        return self._state.reservations[record.id]

    async def _end(self, ending: Ending) -> Ended:
        await self._commit(ending.change)
        return Ended(ending.reservation)

    async def _commit(self, change: Change) -> None:
        self._log.commit(change)
        await self._log.durable()

    def _check_backlog(self) -> None:
        events = len(self._state.outbox)
        if events >= self._log.most_events:
            raise outbox_full(events, self._log.most_events)

    def _restart_buckets(self, limits: Sequence[Limit], now_ms: int) -> None:
        moves = self._state.restarted(limits, now_ms)
        if moves:
            self._log.commit(Change(now_ms, moves, None))

    def _shorten(self, now_ms: int) -> None:
        """See that no lease lasts longer than it was given for, should the clock go back."""
        for reservation in self._state.outliving(now_ms + LONGEST_TTL_MS):
            shortened = replace(reservation, expires_ms=now_ms + reservation.ttl_ms)
            self._log.commit(Change(now_ms, (), shortened))

    def _limit_state(self, limit: Limit, now_ms: int) -> LimitState:
        return limit_state(limit, self._state, self._state.held.get(limit.key, 0), now_ms)
