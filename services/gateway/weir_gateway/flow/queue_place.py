"""A request's place in the queue, of whichever scheduler there is."""

from collections.abc import Callable

from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, TraceContext
from weir.scheduler.v1.scheduler_service_pb2 import Enqueue
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.flow.ending import StopCause
from weir_gateway.flow.messages import enqueue_message
from weir_gateway.flow.patience import Patience
from weir_gateway.flow.ports import SchedulerPort
from weir_gateway.flow.request_facts import RequestFacts
from weir_gateway.intake.prepared_request import PreparedRequest


class QueuePlace:
    """Asks for a place, and asks again when another scheduler has taken over.

    Args:
        request_id: of the request.
        prepared: what to run.
        facts: what has happened to it so far.
        scheduler: the port.
        clock: wall time for the record.
        deadline_us: after which the request is worthless, wall clock.
        trace: context that frames carry.
        patience: the request's only wait at a time.
        scheduler_s: how long it waits without a scheduler.
        give_up: ends the request when that was too long.
    """

    def __init__(
        self,
        request_id: str,
        prepared: PreparedRequest,
        facts: RequestFacts,
        *,
        scheduler: SchedulerPort,
        clock: Clock,
        deadline_us: int,
        trace: TraceContext,
        patience: Patience,
        scheduler_s: float,
        give_up: Callable[[StopCause], None],
    ) -> None:
        self._id = request_id
        self._prepared = prepared
        self._facts = facts
        self._scheduler = scheduler
        self._clock = clock
        self._deadline_us = deadline_us
        self._trace = trace
        self._patience = patience
        self._scheduler_s = scheduler_s
        self._give_up = give_up
        self._epoch = 0

    @property
    def known(self) -> bool:
        """Whether the present scheduler has been told of the request."""
        return bool(self._epoch) and self._epoch == self._scheduler.epoch

    def take(self) -> None:
        """Queues the request, at its old place if it had one."""
        self._patience.end()
        self._epoch = self._scheduler.epoch
        if self._scheduler.enqueue(self._message()):
            self._facts.queued_us = self._facts.queued_us or self._clock.now_us()
        else:
            self.await_scheduler()

    def take_again(self, left: Attempt, reason: Reason, *, worker_fault: bool) -> None:
        """Back to the queue from an attempt that is given up."""
        if self.known:
            self._scheduler.attempt_failed(left, reason, worker_fault=worker_fault)
        else:
            self.take()

    def tell_running(self, attempt: Attempt, *, streams: bool) -> None:
        """A scheduler that has taken over counts the attempt, and hears of its end."""
        message = self._message()
        message.running_worker_id = self._facts.worker_id
        message.ClearField("waiting_since")
        if self._scheduler.enqueue(message):
            self._epoch = self._scheduler.epoch
            if streams:
                self._scheduler.first_token(attempt)

    def await_scheduler(self) -> None:
        """Waits for another scheduler, for a while."""
        error = WeirError(
            Reason.SCHEDULER_UNAVAILABLE,
            f"no scheduler could be reached for {self._scheduler_s:.0f} s",
            retry_after_s=2.0,
        )
        cause = StopCause(Outcome.OUTCOME_SHED, error)
        self._patience.until(self._scheduler_s, lambda: self._give_up(cause))

    def _message(self) -> Enqueue:
        return enqueue_message(
            self._id,
            self._prepared,
            self._facts,
            deadline_us=self._deadline_us,
            trace=self._trace,
        )
