"""Turns a placed request into an attempt on its way."""

from dataclasses import replace

from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.holdings import holding_of
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.session_map import SessionMap
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.wait_reason import QueueExit
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import Worker


class Sender:
    """Books the place, charges the prompt, sets the timers, and tells the gateway."""

    def __init__(
        self,
        state: SchedulerState,
        waiting: WaitingRoom,
        releases: Releases,
        sessions: SessionMap,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._releases = releases
        self._sessions = sessions

    def send(self, lane: Lane, entry: QueueEntry, candidate: Candidate, now_us: int) -> Worker:
        """Dispatches a waiting request to a worker, which is returned."""
        state, info = self._state, candidate.view.info
        record = state.requests.get(entry.request_id)
        assert record is not None, "what waits is in the table"
        self._waiting.leave(record, QueueExit.DISPATCHED)
        self._releases.dispatched(lane)
        attempt = self._attempt(lane, entry, candidate, now_us)
        state.attempts.add(attempt)
        worker = state.fleet.get(info.worker_id)
        assert worker is not None, "a view is of a known worker"
        holding = holding_of(entry, info, attempt.uncached_estimate)
        weight = state.fleet.work_weight(now_us)
        worker.dispatched(attempt.key, holding, entry.request_class, now_us, weight)
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
            long=entry.long,
            choices=entry.choices,
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
