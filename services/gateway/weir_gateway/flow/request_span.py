"""The root span of a request, by the GenAI semantic conventions."""

from contextlib import AbstractContextManager, nullcontext

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, TraceContext
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry import names
from weir_core.telemetry.error_kind import ErrorKind, error_attributes, kind_of
from weir_core.telemetry.span_context import (
    context_from,
    make_current,
    traceparent_of,
    tracestate_of,
)
from weir_core.telemetry.traceparent import as_sampled
from weir_core.telemetry.tracing import Attribute, Tracing
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.origin import Origin, current_origin
from weir_gateway.flow.request_attributes import asked, ended
from weir_gateway.flow.trail import Trail
from weir_gateway.flow.trail_spans import faulted_attempt, root_events, write_children
from weir_gateway.intake.prepared_request import PreparedRequest


class RequestSpan:
    """One of an accepted or reserving request. Made by `RequestSpans.start`.

    While its trace is not recorded it costs two ids; it is written at its end all the same if
    the request failed.
    """

    def __init__(
        self, tracing: Tracing, clock: Clock, prepared: PreparedRequest, trail: Trail
    ) -> None:
        self._tracing = tracing
        self._clock = clock
        self._prepared = prepared
        self._trail = trail
        self._origin = current_origin()
        self._name = names.span_of_request(prepared.operation, prepared.subject.model)
        self._told: dict[str, Attribute] = {}
        self._kind: ErrorKind | None = None
        self._error = ""
        self._worker_address = ""
        self.span: Span = tracing.start(
            self._name,
            parent=context_from(self._origin.traceparent, self._origin.tracestate),
            kind=SpanKind.SERVER,
            start_us=trail.arrived_us,
            links=self._origin.links,
        )
        if self.span.is_recording():
            # Its children in this process take it from here.
            self.span.set_attribute(names.TENANT_ID, prepared.subject.tenant_id)

    @property
    def trace(self) -> TraceContext:
        """What frames to other services carry."""
        return TraceContext(
            traceparent=traceparent_of(self.span), tracestate=tracestate_of(self.span)
        )

    def make_current(self) -> None:
        """Calls of this task are of its trace from here on."""
        make_current(self.span)

    def child(self, name: str) -> AbstractContextManager[object]:
        """A span of a call; none where the request is not sampled, to save its time."""
        if self.span.is_recording():
            return self._tracing.span(name, kind=SpanKind.CLIENT)
        return nullcontext()

    def refused(self, error: WeirError) -> None:
        """It was not accepted."""
        self._failed(error)

    def broken(self, error: Exception) -> None:
        """Our own code failed."""
        if isinstance(error, WeirError):
            self._failed(error)
            return
        self._kind, self._error = ErrorKind.FAULT, type(error).__name__
        self._told[names.ERROR_TYPE] = self._error

    def ended(self, record: LifecycleRecord, ending: Ending, worker_address: str) -> None:
        """It has run, by its last attempt at that address, or will not."""
        self._worker_address = worker_address
        if ending.error is not None:
            self._failed(ending.error)
        elif not self.span.is_recording() and faulted_attempt(self._trail):
            self._kind = ErrorKind.FAULT
        if self.span.is_recording() or self._kind is not None:
            self._told |= ended(record, ending, self._trail, self._prepared)

    def end(self) -> None:
        """Exports it and what happened in it, if it is to be seen."""
        recording = self.span.is_recording()
        if not recording and not self._tracing.keeps(self.span, self._kind):
            return
        own = as_sampled(traceparent_of(self.span))
        attributes = asked(self._prepared, self._trail.request_id) | self._told
        end_us = self._clock.now_us()
        write_children(
            self._tracing, self._trail, self._prepared, own, end_us, self._worker_address
        )
        events = root_events(self._trail, whole=not recording)
        if not recording:
            self._tracing.record_as(
                own,
                self._name,
                parent=self._origin.traceparent,
                start_us=self._trail.arrived_us,
                end_us=end_us,
                kind=SpanKind.SERVER,
                attributes=attributes,
                events=events,
                links=self._origin.links,
                error=self._error or None,
            )
            return
        self.span.set_attributes(attributes)
        for event in events:
            self.span.add_event(event.name, event.attributes, timestamp=event.time_us * 1_000)
        if self._error:
            self.span.set_status(Status(StatusCode.ERROR, self._error))
        self.span.end(end_us * 1_000)

    def _failed(self, error: WeirError) -> None:
        self._told |= error_attributes(error)
        self._kind = kind_of(error.reason)
        # A client that left has what it wanted.
        self._error = "" if self._kind is None else error.reason.value


class RequestSpans:
    """Spans of the requests of this gateway.

    Args:
        tracing: of the process.
        clock: wall time, as of their trails.
    """

    def __init__(self, tracing: Tracing, clock: Clock) -> None:
        self._tracing = tracing
        self._clock = clock

    def start(self, prepared: PreparedRequest, trail: Trail) -> RequestSpan:
        """Begins where the call arrived, in the trace of its caller."""
        return RequestSpan(self._tracing, self._clock, prepared, trail)

    def refused(self, trail: Trail) -> None:
        """Writes one of a call that was refused before it was known what it asks for."""
        error = trail.error
        if error is None or trail.begun_us or error.reason is Reason.CANCELLED:
            return
        origin = current_origin()
        span = self._tracing.start(
            names.SPAN_REFUSED,
            parent=context_from(origin.traceparent, origin.tracestate),
            kind=SpanKind.SERVER,
            start_us=trail.arrived_us,
            links=origin.links,
        )
        if span.is_recording() or self._tracing.keeps(span, kind_of(error.reason)):
            self._write(span, origin, trail, error)

    def _write(self, span: Span, origin: Origin, trail: Trail, error: WeirError) -> None:
        # The other span of these ids is never ended, and so never exported.
        self._tracing.record_as(
            traceparent_of(span),
            names.SPAN_REFUSED,
            parent=origin.traceparent,
            start_us=trail.arrived_us,
            end_us=self._clock.now_us(),
            kind=SpanKind.SERVER,
            attributes={
                names.REQUEST_ID: trail.request_id,
                names.TENANT_ID: trail.caller.tenant_id,
                names.USER_ID: trail.caller.user_id,
                names.API_KEY_ID: trail.caller.key_id,
                **error_attributes(error),
            },
            events=root_events(trail, whole=True),
            links=origin.links,
            error=error.reason.value,
        )
