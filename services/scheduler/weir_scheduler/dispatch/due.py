"""What happens when a timer is due."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weir_scheduler.dispatch.absences import Absences
from weir_scheduler.dispatch.admission import retry_after_timeout
from weir_scheduler.dispatch.adoption import Adoption
from weir_scheduler.dispatch.announcer import Announcer
from weir_scheduler.dispatch.faults import Faults
from weir_scheduler.dispatch.fleet_events import FleetEvents
from weir_scheduler.dispatch.rejections import deadline_passed, no_worker, queue_timeout
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.workers.attempt_key import AttemptKey


class DueHandlers:
    """Runs the timers of the scheduler; each handler checks that its cause still holds."""

    def __init__(
        self,
        state: SchedulerState,
        waiting: WaitingRoom,
        releases: Releases,
        fleet: FleetEvents,
        announcer: Announcer,
        adoption: Adoption,
        absences: Absences,
        faults: Faults,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._releases = releases
        self._fleet = fleet
        self._faults = faults
        self._handlers: dict[TimerKind, Callable[[Any], None]] = {
            TimerKind.WAIT_ENDS: self._wait_ends,
            TimerKind.NO_WORKER: self._no_worker,
            TimerKind.RETRY_EXCLUDED: self._retry_excluded,
            TimerKind.ARRIVAL: self._arrival,
            TimerKind.LINGER: self._linger,
            TimerKind.WINDOW: self._window,
            TimerKind.CLAIM_ENDS: self._window,
            TimerKind.SESSION_WAIT: self._session_wait,
            TimerKind.SILENCE: fleet.silent,
            TimerKind.FORGET_WORKER: self._forget_worker,
            TimerKind.BREAKER: self._breaker,
            TimerKind.ANNOUNCE: lambda _: announcer.announce(),
            TimerKind.UNCLAIMED: adoption.unclaimed,
            TimerKind.GATEWAY_AWAY: absences.ends,
            TimerKind.HOLD_ENDS: lambda _: None,
        }

    def run(self) -> None:
        """Runs everything that is due now."""
        now_us = self._state.now_us()
        while (timer := self._state.timers.pop_due(now_us)) is not None:
            try:
                self._handlers[timer.kind](timer.id)
            except Exception as fault:
                self._faults.of_timer(timer, fault)

    def _wait_ends(self, request_id: str) -> None:
        record = self._waiting_record(request_id)
        if record is None:
            return
        now_us, entry = self._state.now_us(), record.entry
        waited_us = now_us - entry.enqueued_us
        if now_us >= entry.deadline_us:
            self._releases.reject(record, deadline_passed(waited_us))
            return
        retry_after_s = retry_after_timeout(self._state, record, waited_us)
        self._releases.reject(record, queue_timeout(entry, waited_us, retry_after_s))

    def _no_worker(self, request_id: str) -> None:
        record = self._waiting_record(request_id)
        if record is None:
            return
        now_us, entry = self._state.now_us(), record.entry
        since_us = self._state.lanes[record.lane_key].no_worker_since_us
        if record.phase is Phase.WAITING or record.awaits:
            if since_us is None:
                return
            due_us = max(since_us, entry.enqueued_us) + self._waiting.no_worker_us(entry)
            if due_us > now_us:
                self._state.timers.set(TimerKind.NO_WORKER, request_id, due_us)
                return
        waited_us = now_us - entry.enqueued_us
        self._releases.reject(record, no_worker(entry, waited_us, record.last_failure))

    def _retry_excluded(self, request_id: str) -> None:
        record = self._waiting_record(request_id)
        if record is not None and record.phase is Phase.STRANDED:
            record.entry = replace(record.entry, excluded=frozenset())
            self._waiting.unstrand(record)

    def _session_wait(self, request_id: str) -> None:
        record = self._waiting_record(request_id)
        if record is not None and record.awaits:
            self._waiting.unstrand(record)

    def _arrival(self, key: AttemptKey) -> None:
        """No report has named the attempt in time: its increment goes, its fate is open.

        The next report decides (see `FleetEvents.report`). A worker from which none has come
        since then gets no more work: without increments it would look idle, and win.
        """
        attempt = self._state.attempts.get(key)
        worker = self._state.fleet.get(attempt.worker_id) if attempt is not None else None
        if attempt is not None and worker is not None:
            worker.released(key)
            sent_us = attempt.arrival_deadline_us - self._state.bounds.arrival_us
            if not attempt.named and worker.last_report_us < sent_us:
                worker.overdue = True
                self._state.fleet.touched(worker)
            self._state.wake_model(worker.info.model)

    def _linger(self, request_id: str) -> None:
        record = self._state.requests.get(request_id)
        if record is None or record.waits:
            return
        if record.attempt is not None:
            self._releases.abort(record.attempt, "its deadline has passed")
        self._releases.forget(record)

    def _window(self, key: LaneKey) -> None:
        self._state.to_pump[key] = None

    def _forget_worker(self, worker_id: str) -> None:
        worker = self._state.fleet.get(worker_id)
        if worker is not None and worker.lost:
            self._state.fleet.remove(worker_id)

    def _breaker(self, worker_id: str) -> None:
        worker = self._state.fleet.get(worker_id)
        if worker is not None:
            self._fleet.offer(worker)

    def _waiting_record(self, request_id: str) -> RequestRecord | None:
        record = self._state.requests.get(request_id)
        return record if record is not None and record.waits else None
