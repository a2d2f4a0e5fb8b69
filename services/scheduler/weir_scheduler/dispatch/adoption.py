"""Attempts that another scheduler dispatched, and that run."""

from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.holdings import holding_of
from weir_scheduler.dispatch.intake import Intake
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.rejections import worker_lost
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.workers.attempt_key import AttemptKey


class Adoption:
    """Takes over what runs, as its gateway tells, so that its end counts here like any other.

    The worker's word decides as ever: a report that names the attempt confirms it, one that was
    made after a grant would have expired and does not, ends it. A worker that does not register
    within the bound of a lost one is lost.
    """

    def __init__(
        self, state: SchedulerState, intake: Intake, waiting: WaitingRoom, releases: Releases
    ) -> None:
        self._state = state
        self._intake = intake
        self._waiting = waiting
        self._releases = releases

    def adopt(self, gateway: str, request: NewRequest) -> None:
        """Takes over a running request; one that is known already changes nothing.

        Raises:
            WeirError: DEADLINE_EXCEEDED, MODEL_NOT_FOUND, or RESERVATION_CONFLICT when another
                gateway uses the id.
        """
        if self._intake.known(gateway, request.request_id) is not None:
            return
        key = AttemptKey(request.request_id, request.attempts)
        record = self._intake.record(gateway, request)
        record.lane_key = self._waiting.lane_for(record.entry).key
        # One that is being aborted here keeps its place; its end is its gateway's to tell.
        attempt = self._state.attempts.get(key) or self._take(record, key, request)
        record.attempt, record.phase = attempt, Phase.DISPATCHED
        self._state.requests.add(record)
        linger_us = record.entry.deadline_us + self._state.bounds.linger_us
        self._state.timers.set(TimerKind.LINGER, key.request_id, linger_us)

    def unclaimed(self, key: AttemptKey) -> None:
        """No worker of that id has registered in time."""
        attempt = self._state.attempts.get(key)
        if attempt is None or self._state.fleet.get(attempt.worker_id) is not None:
            return
        record = self._state.requests.get(key.request_id)
        cause = worker_lost(attempt.worker_id, "it is not known to the scheduler that took over")
        self._releases.end(attempt, attempt.usage if attempt.streamed else None)
        if record is None or record.attempt is not attempt:
            return
        if attempt.streamed:
            self._releases.lose(record, cause)
        else:
            self._releases.requeue(record, cause, exclude=True)

    def _take(self, record: RequestRecord, key: AttemptKey, request: NewRequest) -> Attempt:
        attempt = self._attempt(record, key, request)
        self._state.attempts.add(attempt)
        self._count_at_worker(record, attempt)
        timers, now_us = self._state.timers, self._state.now_us()
        timers.set(TimerKind.ARRIVAL, key, attempt.arrival_deadline_us)
        timers.set(TimerKind.UNCLAIMED, key, now_us + self._state.bounds.loss_us)
        self._state.update_cap(attempt.tenant_id)
        return attempt

    def _attempt(self, record: RequestRecord, key: AttemptKey, request: NewRequest) -> Attempt:
        entry, bounds = record.entry, self._state.bounds
        return Attempt(
            key=key,
            worker_id=request.running_worker_id,
            tenant_id=entry.tenant_id,
            lane_key=record.lane_key,
            request_class=entry.request_class,
            long=entry.long,
            choices=entry.choices,
            prompt_tokens=entry.prompt_tokens,
            uncached_estimate=entry.prompt_tokens,
            arrival_deadline_us=self._state.now_us() + bounds.arrival_us,
            expire_wall_us=self._state.clock.now_us() + bounds.arrival_us,
        )

    def _count_at_worker(self, record: RequestRecord, attempt: Attempt) -> None:
        """Its start may be on the way still: then no report has named it."""
        worker = self._state.fleet.get(attempt.worker_id)
        if worker is None:
            return
        entry = record.entry
        holding = holding_of(entry, worker.info, attempt.uncached_estimate)
        if attempt.key in worker.reported:
            worker.described(attempt.key, holding)
        else:
            worker.dispatched(attempt.key, holding, entry.request_class, self._state.now_us())
