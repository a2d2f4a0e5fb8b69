"""Moves requests from the queues to workers."""

from dataclasses import replace

from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.dispatch.preempter import Preempter
from weir_scheduler.dispatch.rejections import too_large
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.fit import start_blocks
from weir_scheduler.placement.placement import Blocked, Placed, Stranded, TooLarge
from weir_scheduler.placement.placer import Placer
from weir_scheduler.placement.session_map import SessionMap
from weir_scheduler.queues.batch_window import window_us
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.holding import Holding
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_view import WorkerView


class Dispatcher:
    """Places the heads of the lanes until one does not fit.

    Nothing is skipped to let something smaller through: what is passed over again and again
    starves, and the fairness bound of the queue would be lost.
    """

    def __init__(
        self,
        state: SchedulerState,
        waiting: WaitingRoom,
        releases: Releases,
        preempter: Preempter,
        placer: Placer,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._releases = releases
        self._preempter = preempter
        self._placer = placer
        self._sessions = SessionMap()

    def pump(self) -> None:
        """Works off the lanes in which something may have become possible."""
        to_pump = self._state.to_pump
        while to_pump:
            key = next(iter(to_pump))
            del to_pump[key]
            lane = self._state.lanes[key]
            before = lane.blocked
            lane.blocked = self._fill(lane, self._state.now_us())
            self._mark_blocked(lane, before)

    def _fill(self, lane: Lane, now_us: int) -> tuple[str, WaitReason] | None:
        """Dispatches from a lane; returns the head that must wait, and why."""
        workers = self._state.fleet.serving(lane.key)
        self._note_liveness(lane, any(worker.live(now_us) for worker in workers), now_us)
        if lane.head(now_us) is None:
            lane.window.reset()
            return None
        views = {
            worker.info.worker_id: worker.view(now_us)
            for worker in workers
            if not self._preempter.is_claimed(worker.info.worker_id, lane)
        }
        only: RequestClass | None = None
        while (entry := self._next(lane, now_us, only)) is not None:
            placement = self._placer.place(
                entry, list(views.values()), self._sessions.worker_of(entry.session_id)
            )
            if isinstance(placement, Placed):
                if self._gathers(lane, entry, placement.candidate.view, now_us):
                    return entry.request_id, WaitReason.BATCH_WINDOW
                worker = self._dispatch(lane, entry, placement.candidate, now_us)
                views[worker.info.worker_id] = worker.view(now_us)
                only = entry.request_class if worker.info.static_batching else None
            elif isinstance(placement, Blocked):
                reason = self._preempter.consider(lane, entry, placement.reason)
                return entry.request_id, reason
            else:
                self._set_aside(entry, placement)
        lane.window.reset()
        return None

    def _next(self, lane: Lane, now_us: int, only: RequestClass | None) -> QueueEntry | None:
        """Whoever has claimed a place, else whose turn it is."""
        claimant = self._preempter.claimant(lane)
        return claimant or lane.head(now_us, only) or lane.head(now_us)

    def _set_aside(self, entry: QueueEntry, placement: TooLarge | Stranded) -> None:
        record = self._record(entry)
        if isinstance(placement, TooLarge):
            self._releases.reject(record, too_large(placement.message))
        else:
            self._waiting.strand(record)

    def _record(self, entry: QueueEntry) -> RequestRecord:
        record = self._state.requests.get(entry.request_id)
        assert record is not None, "what waits is in the table"
        return record

    def _gathers(self, lane: Lane, entry: QueueEntry, view: WorkerView, now_us: int) -> bool:
        """Whether an idle worker's first batch is still gathering."""
        if not view.idle:
            return False
        rules = self._state.rules.request(entry.model, entry.tenant_id)
        own_us = entry.enqueued_us + window_us(entry, rules.batch_wait_us)
        closes_us = lane.window.open_until(now_us)
        full = (
            len(lane) >= min(view.rules.max_batch_size, view.max_requests)
            or lane.queued_cost >= view.rules.max_batch_tokens
        )
        if full or own_us <= now_us or closes_us is None:
            return False
        self._state.timers.set_earlier(TimerKind.WINDOW, lane.key, closes_us)
        return True

    def _dispatch(self, lane: Lane, entry: QueueEntry, candidate: Candidate, now_us: int) -> Worker:
        state, record, info = self._state, self._record(entry), candidate.view.info
        self._waiting.leave(record, QueueExit.DISPATCHED)
        self._preempter.dispatched(lane, entry.request_id)
        attempt = self._attempt(lane, entry, candidate, now_us)
        state.attempts.add(attempt)
        worker = state.fleet.get(info.worker_id)
        assert worker is not None, "a view is of a known worker"
        holding = Holding(entry.estimated_cost, start_blocks(entry, info), places=entry.choices)
        worker.dispatched(attempt.key, holding, entry.request_class, now_us)
        self._releases.charge(attempt, attempt.uncached_estimate * state.bounds.prompt_weight)
        record.entry = replace(entry, attempts=attempt.key.number)
        record.attempt, record.phase = attempt, Phase.DISPATCHED
        self._sessions.placed(entry.session_id, info.worker_id)
        self._set_timers(record, attempt)
        state.update_cap(entry.tenant_id)
        self._send(record, attempt, candidate, now_us)
        return worker

    def _attempt(self, lane: Lane, entry: QueueEntry, candidate: Candidate, now_us: int) -> Attempt:
        return Attempt(
            key=AttemptKey(entry.request_id, entry.attempts + 1),
            worker_id=candidate.view.info.worker_id,
            tenant_id=entry.tenant_id,
            lane_key=lane.key,
            request_class=entry.request_class,
            prompt_tokens=entry.prompt_tokens,
            uncached_estimate=entry.prompt_tokens - candidate.cached_tokens,
            arrival_deadline_us=now_us + self._state.bounds.arrival_us,
            expire_wall_us=self._state.clock.now_us() + self._state.bounds.arrival_us,
        )

    def _set_timers(self, record: RequestRecord, attempt: Attempt) -> None:
        timers, bounds = self._state.timers, self._state.bounds
        timers.set(TimerKind.ARRIVAL, attempt.key, attempt.arrival_deadline_us)
        entry = record.entry
        timers.set(TimerKind.LINGER, entry.request_id, entry.deadline_us + bounds.linger_us)

    def _send(
        self, record: RequestRecord, attempt: Attempt, candidate: Candidate, now_us: int
    ) -> None:
        entry = record.entry
        dispatch = Dispatch(
            key=attempt.key,
            worker=candidate.view.info,
            tenant_id=entry.tenant_id,
            request_class=entry.request_class,
            priority=entry.priority,
            max_new_tokens=entry.max_new_tokens,
            queue_us=now_us - entry.enqueued_us,
            expire_wall_us=attempt.expire_wall_us,
        )
        self._state.outbox.dispatched(record.gateway, dispatch)

    def _note_liveness(self, lane: Lane, live: bool, now_us: int) -> None:
        """Bounds the waits of a lane that has lost its last live worker."""
        if live == (lane.no_worker_since_us is None):
            return
        lane.no_worker_since_us = None if live else now_us
        if not live:
            self._waiting.watch_lane(lane, now_us)
        self._state.mark_lane(lane)

    def _mark_blocked(self, lane: Lane, before: tuple[str, WaitReason] | None) -> None:
        if lane.blocked == before:
            return
        for head in (before, lane.blocked):
            record = self._state.requests.get(head[0]) if head else None
            if record is not None and record.waits:
                entry = record.entry
                self._state.mark(lane.key, entry.request_class, entry.tenant_id)
