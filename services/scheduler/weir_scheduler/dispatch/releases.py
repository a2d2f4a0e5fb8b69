"""Ends of attempts and of requests: each is released once."""

from dataclasses import replace

from weir_core.errors import WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.rejections import (
    attempts_used_up,
    deadline_passed,
    is_want_of_room,
    retries_used_up,
)
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.retry_budget import RetryBudget
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.wait_reason import QueueExit
from weir_scheduler.workers.worker_report import AttemptUsage


class Releases:
    """Gives back places, service and records."""

    def __init__(self, state: SchedulerState, waiting: WaitingRoom) -> None:
        self._state = state
        self._waiting = waiting
        self._retries: dict[LaneKey, RetryBudget] = {}

    def charge(self, attempt: Attempt, service: int) -> None:
        """Corrects the service charged for an attempt to `service`, weighted tokens."""
        lane = self._state.lanes[attempt.lane_key]
        lane.charge(
            attempt.request_class,
            attempt.tenant_id,
            service - attempt.charged,
            long=attempt.long,
            now_us=self._state.now_us(),
        )
        attempt.charged = service

    def progress(self, attempt: Attempt, usage: AttemptUsage) -> None:
        """Charges output as it is produced, and the prompt as it turns out to be cached."""
        attempt.usage = usage
        if usage.completion_tokens:
            self._state.attempts.started(attempt)
        bounds = self._state.bounds
        prompt = attempt.uncached_estimate
        if usage.prompt_tokens:
            prompt = max(0, attempt.prompt_tokens - usage.cached_prompt_tokens)
        output = usage.completion_tokens * bounds.output_weight
        self.charge(attempt, prompt * bounds.prompt_weight + output)

    def end(self, attempt: Attempt, usage: AttemptUsage | None) -> None:
        """The attempt is gone from its worker: frees its place. Idempotent.

        Args:
            attempt: which.
            usage: what ran and is charged; None when nothing is (it never ran, or was lost
                before anything was streamed).
        """
        state = self._state
        if state.attempts.remove(attempt.key) is None:
            return
        state.timers.cancel(TimerKind.ARRIVAL, attempt.key)
        worker = state.fleet.get(attempt.worker_id)
        if worker is not None:
            worker.released(attempt.key)
            worker.breaker.over(attempt.key)
            state.fleet.touched(worker)
        self.charge(attempt, 0 if attempt.preempted else self._service(usage))
        state.observer.served(attempt)
        # What was cut short says nothing of the length of answers.
        if usage is not None and usage.completion_tokens and not attempt.aborting:
            each = -(-usage.completion_tokens // attempt.choices)
            state.predictor.observe(attempt.tenant_id, attempt.lane_key.model, each)
        state.update_cap(attempt.tenant_id)
        state.wake_model(attempt.lane_key.model)

    def abort(self, attempt: Attempt, why: str) -> None:
        """Tells the worker to end an attempt; its place stays taken until that is reported."""
        if attempt.key not in self._state.attempts or attempt.aborting:
            return
        attempt.aborting = True
        self._state.outbox.abort(attempt.worker_id, [attempt.key], why)

    def fault(self, attempt: Attempt) -> None:
        """Counts a fault of transport or engine against the worker, once an attempt."""
        worker = self._state.fleet.get(attempt.worker_id)
        if worker is None or attempt.faulted:
            return
        attempt.faulted = True
        worker.breaker.fault(self._state.now_us())
        self._state.watch_breaker(worker)

    def success(self, attempt: Attempt) -> None:
        """The worker has produced something."""
        worker = self._state.fleet.get(attempt.worker_id)
        if worker is None:
            return
        if worker.breaker.open_until_us is not None:
            self._state.fleet.touched(worker)
            self._state.wake_model(worker.info.model)
        worker.breaker.success()

    def forget(self, record: RequestRecord) -> None:
        """The request has come to its end."""
        self._state.timers.cancel(TimerKind.LINGER, record.entry.request_id)
        self._state.requests.remove(record)
        record.attempt = None

    def reject(self, record: RequestRecord, cause: WeirError) -> None:
        """Ends a request that will not run, waiting or between two attempts."""
        if record.waits:
            self._waiting.leave(record, QueueExit.REJECTED, cause)
        self.forget(record)
        if is_want_of_room(cause):
            entry = record.entry
            self._state.slo.missed(entry.tenant_id, entry.request_class, self._state.now_us())
        self._state.outbox.rejected(record.gateway, record.entry.request_id, cause)

    def drop(self, record: RequestRecord, exit_: QueueExit, why: str) -> None:
        """Ends a request at its gateway's wish: out of the queue, or aborted at the worker."""
        if record.waits:
            self._waiting.leave(record, exit_)
        elif record.attempt is not None:
            self.abort(record.attempt, why)
        self.forget(record)

    def try_again(self, record: RequestRecord, cause: WeirError, *, exclude: bool) -> None:
        """Requeues a request that was refused, unless so many were that retries would add load."""
        now_us, lane = self._state.now_us(), self._state.lanes[record.lane_key]
        rules = lane.pool.placement
        if self._budget(record.lane_key).take(now_us, rules.retries_per_s):
            self.requeue(record, cause, exclude=exclude)
            return
        record.attempt = None
        self.reject(record, retries_used_up(cause))

    def dispatched(self, lane: Lane) -> None:
        """Counts a dispatch for the retries that its lane may have."""
        self._budget(lane.key).dispatched(lane.pool.placement.retry_ratio_millis)

    def _budget(self, key: LaneKey) -> RetryBudget:
        budget = self._retries.get(key)
        if budget is None:
            budget = self._retries[key] = RetryBudget(self._state.now_us())
        return budget

    def requeue(self, record: RequestRecord, cause: WeirError, *, exclude: bool) -> None:
        """Puts a request back at its old place, or rejects it when its attempts are used up.

        Args:
            record: a dispatched request of which nothing was streamed.
            cause: why the attempt failed.
            exclude: do not try the same worker again, if there is another.
        """
        state, entry = self._state, record.entry
        attempt, now_us = record.attempt, state.now_us()
        record.attempt, record.last_failure = None, cause
        state.timers.cancel(TimerKind.LINGER, entry.request_id)
        if entry.attempts - record.preemptions >= state.bounds.max_attempts:
            self.reject(record, attempts_used_up(entry.attempts, cause))
            return
        if entry.deadline_us <= now_us:
            self.reject(record, deadline_passed(now_us - entry.enqueued_us))
            return
        excluded = entry.excluded
        if exclude and attempt is not None:
            excluded |= {attempt.worker_id}
        record.entry = replace(entry, enqueued_us=now_us, excluded=excluded)
        state.observer.requeued(record, cause)
        try:
            self._waiting.enter(record)
        except WeirError as unknown_model:
            self.reject(record, unknown_model)
            return
        queue = state.lanes[record.lane_key].queue_of(
            entry.request_class, entry.tenant_id, long=entry.long
        )
        position = queue.position(entry.request_id) if queue is not None else 1
        state.outbox.requeued(record.gateway, entry.request_id, cause, position)

    def lose(self, record: RequestRecord, cause: WeirError) -> None:
        """Ends a request whose attempt broke after something was streamed."""
        attempt = record.attempt
        entry, now_us = record.entry, self._state.now_us()
        self._state.slo.missed(entry.tenant_id, entry.request_class, now_us, streamed=True)
        self.forget(record)
        if attempt is not None:
            self._state.outbox.attempt_lost(record.gateway, attempt.key, cause)

    def _service(self, usage: AttemptUsage | None) -> int:
        if usage is None:
            return 0
        bounds = self._state.bounds
        uncached = max(0, usage.prompt_tokens - usage.cached_prompt_tokens)
        return uncached * bounds.prompt_weight + usage.completion_tokens * bounds.output_weight
