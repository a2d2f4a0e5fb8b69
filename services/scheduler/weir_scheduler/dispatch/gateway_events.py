"""What gateways report about their requests."""

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.preempter import Preempter
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.queues.wait_reason import QueueExit
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptUsage

# A stale or expired grant, and a place given to another, say nothing about the worker.
_ANY_WORKER = frozenset({Reason.GRANT_INVALID, Reason.STALE_ATTEMPT, Reason.PREEMPTED})


class GatewayEvents:
    """Applies the events of a gateway to its own requests; news of others' is ignored.

    Every release names its attempt: a late word about an old attempt must not release the
    new one.
    """

    def __init__(self, state: SchedulerState, releases: Releases, preempter: Preempter) -> None:
        self._state = state
        self._releases = releases
        self._preempter = preempter

    def withdraw(self, gateway: str, request_id: str) -> None:
        """The client is gone: out of the queue, or aborted at the worker."""
        record = self._state.requests.owned(gateway, request_id)
        if record is not None:
            self._releases.drop(record, QueueExit.WITHDRAWN, "withdrawn by the gateway")

    def attempt_failed(
        self, gateway: str, key: AttemptKey, reason: Reason, *, worker_fault: bool
    ) -> None:
        """An attempt could not start, or broke before its first token."""
        record = self._state.requests.owned(gateway, key.request_id)
        attempt = record.attempt if record is not None else None
        if record is None or attempt is None or attempt.key != key:
            return
        if worker_fault:
            self._releases.fault(attempt)
        preempted = reason is Reason.PREEMPTED and attempt.asked and not attempt.streamed
        if preempted:
            self._preempter.given(record, attempt)
        self._releases.abort(attempt, f"failed at the gateway: {reason}")
        cause = WeirError(
            reason, f"attempt {key.number} failed on worker {attempt.worker_id}: {reason}"
        )
        if attempt.streamed:
            self._releases.lose(record, cause)
            return
        exclude = worker_fault or reason not in _ANY_WORKER
        moves = worker_fault or preempted or reason is Reason.DRAINING
        # One that leaves refuses whatever crosses with its word: no sign of too much load.
        again = self._releases.requeue if moves else self._releases.try_again
        again(record, cause, exclude=exclude)

    def first_token(self, gateway: str, key: AttemptKey) -> None:
        """Something was streamed: the request can no longer move."""
        record = self._state.requests.owned(gateway, key.request_id)
        if record is None:
            return
        if record.attempt is not None and record.attempt.key == key:
            if record.first_token_us is None:
                record.first_token_us = self._state.now_us()
                self._state.slo.first_token(record.entry, record.first_token_us)
            self._streamed(record.attempt)
        elif key.number <= record.entry.attempts:
            self._streamed_too_late(record, key)

    def finish(self, gateway: str, key: AttemptKey, usage: AttemptUsage | None) -> None:
        """The attempt has ended and the gateway has its terminal record.

        Of an attempt that was told to abort it may have given up waiting for that: its place
        is free when the worker says so.
        """
        record = self._state.requests.owned(gateway, key.request_id)
        attempt = self._state.attempts.get(key)
        if attempt is not None and not attempt.aborting:
            if usage is not None and usage.completion_tokens:
                self._releases.success(attempt)
            self._releases.end(attempt, usage)
            self._confirm_end(attempt, usage)
        if record is None or key.number != record.entry.attempts:
            return
        if usage is not None:
            self._state.slo.finished(
                record.entry, record.first_token_us, usage.completion_tokens, self._state.now_us()
            )
        # It waits only when the end and a requeue have crossed.
        self._releases.drop(record, QueueExit.WITHDRAWN, "finished")

    def gateway_lost(self, gateway: str) -> None:
        """The gateway's stream has ended: nobody is left to answer to."""
        for record in self._state.requests.of_gateway(gateway):
            self._releases.drop(record, QueueExit.GATEWAY_LOST, "the gateway's stream ended")

    def _confirm_end(self, attempt: Attempt, usage: AttemptUsage | None) -> None:
        """With the terminal record of the worker a report that still names it is older."""
        worker = self._state.fleet.get(attempt.worker_id)
        if worker is not None and usage is not None:
            worker.ended(attempt.key)

    def _streamed(self, attempt: Attempt) -> None:
        attempt.named = attempt.streamed = True
        self._state.attempts.started(attempt)
        self._releases.success(attempt)
        if attempt.asked:
            # It keeps its place: whoever wanted it looks for another.
            self._state.to_pump[attempt.lane_key] = None

    def _streamed_too_late(self, record: RequestRecord, key: AttemptKey) -> None:
        """The first token crossed with a requeue: a second answer must not follow the first."""
        cause = WeirError(
            Reason.WORKER_LOST,
            f"attempt {key.number} had been given up when its first token was streamed",
        )
        self._releases.drop(record, QueueExit.WITHDRAWN, "an older attempt was streamed")
        self._state.outbox.attempt_lost(record.gateway, key, cause)
