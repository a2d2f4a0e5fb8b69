"""A span for every wait, in the trace of its request."""

from opentelemetry.trace import Span, Status, StatusCode

from weir_core.errors import WeirError
from weir_core.telemetry import names
from weir_core.telemetry.tracing import Tracing, context_from, unrecorded_span
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest, Subject, TraceRef
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason


class QueueSpans:
    """Starts, annotates and ends `queue` spans; an `Observer`."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[str, Span] = {}

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """See `Observer.refused`. A span without length says why there is no more of them."""
        span = self._start(request.request_id, request.subject, request.trace, 0)
        _end_refused(span, cause)

    def entered(self, record: RequestRecord) -> None:
        """See `Observer.entered`."""
        entry = record.entry
        span = self._start(entry.request_id, record.subject, record.trace, entry.attempts + 1)
        if record.last_failure is not None:
            span.add_event("requeued", {names.REASON: record.last_failure.reason.value})
        self._open[entry.request_id] = span

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """See `Observer.waits`."""
        span = self._open.get(record.entry.request_id)
        if span is not None:
            attributes = {names.REASON: reason.value, names.QUEUE_POSITION: position}
            span.add_event("waits", attributes)

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """See `Observer.left`."""
        span = self._open.pop(record.entry.request_id, None)
        if span is None:
            return
        span.set_attribute(names.OUTCOME, exit_.value)
        if cause is not None:
            _end_refused(span, cause)
        else:
            span.end()

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """See `Observer.requeued`."""

    def served(self, attempt: Attempt) -> None:
        """See `Observer.served`."""

    def _start(self, request_id: str, subject: Subject, trace: TraceRef, attempt: int) -> Span:
        unrecorded = unrecorded_span(trace.traceparent)
        if unrecorded is not None:
            return unrecorded
        return self._tracing.start(
            names.SPAN_QUEUE,
            parent=context_from(trace.traceparent, trace.tracestate),
            attributes={
                names.REQUEST_ID: request_id,
                names.TENANT_ID: subject.tenant_id,
                names.GEN_AI_REQUEST_MODEL: subject.model,
                names.ATTEMPT: attempt,
            },
        )


def _end_refused(span: Span, cause: WeirError) -> None:
    span.set_attribute(names.REASON, cause.reason.value)
    span.set_status(Status(StatusCode.ERROR, cause.reason.value))
    span.end()
