"""A span for every wait, in the trace of its request."""

import time
from dataclasses import dataclass

from opentelemetry.trace import Span

from weir_core.errors import WeirError
from weir_core.telemetry import names
from weir_core.telemetry.error_kind import error_attributes, kind_of
from weir_core.telemetry.span_context import context_from, unrecorded_span
from weir_core.telemetry.span_status import mark_refused
from weir_core.telemetry.traceparent import as_sampled
from weir_core.telemetry.tracing import Attribute, Tracing
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest, Subject, TraceRef
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason


@dataclass(slots=True)
class _Wait:
    """One wait: its span, None while its trace is not recorded, and since when it lasts."""

    span: Span | None
    began_us: int
    waits_for: tuple[WaitReason, int] | None = None


class QueueSpans:
    """Starts, annotates and ends `queue` spans; an `Observer`.

    A wait whose trace is not recorded costs two numbers, and gets its span when it ends in an
    error.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[str, _Wait] = {}

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """See `Observer.refused`. A span without length says why there is no more of them."""
        wait = self._begin(request.request_id, request.subject, request.trace, 0)
        attributes = _attributes(request.request_id, request.subject, 0)
        self._end_refused(wait, request.trace, attributes, cause)

    def entered(self, record: RequestRecord) -> None:
        """See `Observer.entered`."""
        entry = record.entry
        number = entry.attempts + 1
        wait = self._begin(entry.request_id, record.subject, record.trace, number)
        if record.last_failure is not None and wait.span is not None:
            name = "preempted" if record.was_preempted else "requeued"
            wait.span.add_event(name, {names.REASON: record.last_failure.reason.value})
        self._open[entry.request_id] = wait

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """See `Observer.waits`."""
        wait = self._open.get(record.entry.request_id)
        if wait is None:
            return
        wait.waits_for = (reason, position)
        if wait.span is not None:
            attributes = {names.REASON: reason.value, names.QUEUE_POSITION: position}
            wait.span.add_event("waits", attributes)

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """See `Observer.left`."""
        request_id = record.entry.request_id
        wait = self._open.pop(request_id, None)
        if wait is None:
            return
        if cause is not None:
            number = record.entry.attempts + 1
            attributes = _attributes(request_id, record.subject, number)
            attributes[names.OUTCOME] = exit_.value
            self._end_refused(wait, record.trace, attributes, cause)
        elif wait.span is not None:
            wait.span.set_attribute(names.OUTCOME, exit_.value)
            wait.span.end()

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """See `Observer.requeued`."""

    def served(self, attempt: Attempt) -> None:
        """See `Observer.served`."""

    def _begin(self, request_id: str, subject: Subject, trace: TraceRef, attempt: int) -> _Wait:
        began_us = time.time_ns() // 1_000
        if unrecorded_span(trace.traceparent) is not None:
            return _Wait(None, began_us)
        span = self._tracing.start(
            names.SPAN_QUEUE,
            parent=context_from(trace.traceparent, trace.tracestate),
            attributes=_attributes(request_id, subject, attempt),
        )
        return _Wait(span, began_us)

    def _end_refused(
        self, wait: _Wait, trace: TraceRef, attributes: dict[str, Attribute], cause: WeirError
    ) -> None:
        if wait.span is not None:
            wait.span.set_attributes(attributes)
            mark_refused(wait.span, cause)
            wait.span.end()
        elif self._tracing.keeps(trace.traceparent, kind_of(cause.reason)):
            if wait.waits_for is not None:
                reason, attributes[names.QUEUE_POSITION] = wait.waits_for
                attributes[names.QUEUE_REASON] = reason.value
            self._tracing.record(
                names.SPAN_QUEUE,
                parent=context_from(as_sampled(trace.traceparent), trace.tracestate),
                start_us=wait.began_us,
                end_us=time.time_ns() // 1_000,
                attributes=attributes | error_attributes(cause),
                error=cause.reason.value,
            )


def _attributes(request_id: str, subject: Subject, attempt: int) -> dict[str, Attribute]:
    return {
        names.REQUEST_ID: request_id,
        names.TENANT_ID: subject.tenant_id,
        names.GEN_AI_REQUEST_MODEL: subject.model,
        names.ATTEMPT: attempt,
    }
