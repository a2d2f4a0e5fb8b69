"""A request's place in the queue, of whichever scheduler there is."""

from weir.common.v1.lifecycle_pb2 import Attempt, TraceContext
from weir.scheduler.v1.scheduler_service_pb2 import Enqueue
from weir_core.clock import Clock
from weir_gateway.flow.messages import enqueue_message
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
    ) -> None:
        self._id = request_id
        self._prepared = prepared
        self._facts = facts
        self._scheduler = scheduler
        self._clock = clock
        self._deadline_us = deadline_us
        self._trace = trace
        self._epoch = 0

    @property
    def known(self) -> bool:
        """Whether the present scheduler has been told of the request."""
        return bool(self._epoch) and self._epoch == self._scheduler.epoch

    def take(self) -> bool:
        """Queues the request, at its old place if it had one; whether there is a scheduler."""
        self._epoch = self._scheduler.epoch
        taken = self._scheduler.enqueue(self._message())
        if taken:
            self._facts.queued_us = self._facts.queued_us or self._clock.now_us()
        return taken

    def tell_running(self, attempt: Attempt, *, streams: bool) -> None:
        """A scheduler that has taken over counts the attempt, and hears of its end."""
        message = self._message()
        message.running_worker_id = self._facts.worker_id
        message.ClearField("waiting_since")
        if self._scheduler.enqueue(message):
            self._epoch = self._scheduler.epoch
            if streams:
                self._scheduler.first_token(attempt)

    def _message(self) -> Enqueue:
        return enqueue_message(
            self._id,
            self._prepared,
            self._facts,
            deadline_us=self._deadline_us,
            trace=self._trace,
        )
