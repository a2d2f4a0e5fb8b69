"""OpenTelemetry tracing without globals: one `Tracing` per service, passed to who needs it.

Requests share streams, so a span's parent mostly comes as a `traceparent` string inside a
frame, and the spans of queue, prefill and decode are written afterwards from timestamps.
"""

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from weir_core.telemetry.error_budget import ErrorBudget
from weir_core.telemetry.error_kind import ErrorKind
from weir_core.telemetry.linked_ratio import LinkedRatio
from weir_core.telemetry.recorded_span import SCOPE, RecordedSpan
from weir_core.telemetry.span_context import (
    context_from,
    span_context_of,
    traceparent_of,
    unrecorded_span,
)
from weir_core.telemetry.span_redaction import SpanGate, hand_down_tenant
from weir_core.telemetry.span_resource import SpanResource
from weir_core.telemetry.span_status import mark_failed
from weir_core.telemetry.traceparent import as_sampled, is_sampled

Attribute = str | bool | int | float | Sequence[str] | Sequence[int] | Sequence[float]
Attributes = Mapping[str, Attribute]


_EXPORT_TIMEOUT_S = 5
_EXPORT_DELAY_MS = 1_000


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one moment of a span, Unix microseconds."""

    name: str
    time_us: int
    attributes: Attributes


class Tracing:
    """Starts and exports the spans of one service.

    Args:
        service: `service.name` of the resource, such as `weir-gateway`.
        processor: where ended spans go, redacted; None drops them, ids are still made and
            passed on.
        tenants: where those of a tenant go instead, by its id.
        sample_ratio: share of new traces recorded, 0 to 1; a caller's decision always wins.
        instance: `service.instance.id`, such as the worker's id.
        errors: how many traces are written because of their error, against the decision.
    """

    def __init__(
        self,
        service: str,
        *,
        processor: SpanProcessor | None = None,
        tenants: Mapping[str, SpanProcessor] | None = None,
        sample_ratio: float = 1.0,
        instance: str = "",
        errors: ErrorBudget | None = None,
    ) -> None:
        exports = processor is not None or bool(tenants)
        root: Sampler = LinkedRatio(sample_ratio) if exports else ALWAYS_OFF
        self._resource = _resource(service, instance)
        self._provider = TracerProvider(
            sampler=ParentBased(root), resource=self._resource, shutdown_on_exit=False
        )
        self._errors = errors or ErrorBudget()
        self._gate = SpanGate(processor, tenants) if exports else None
        if self._gate is not None:
            self._provider.add_span_processor(self._gate)
        self._tracer = self._provider.get_tracer("weir")

    def start(
        self,
        name: str,
        *,
        parent: Context | str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        start_us: int | None = None,
        links: Sequence[str] = (),
    ) -> Span:
        """Starts a span that the caller ends; it does not become the current one.

        Args:
            name: low-cardinality name.
            parent: a context, a `traceparent` string ("" starts a new trace), or None for
                the current span.
            kind: SERVER, CLIENT or INTERNAL.
            attributes: no prompt text, no secrets.
            start_us: Unix microseconds; None for now.
            links: `traceparent` strings of spans that this one comes from, without being a part
                of their trace.
        """
        context = context_from(parent) if isinstance(parent, str) else parent
        start_time = None if start_us is None else start_us * 1_000
        above = trace.get_current_span(context)
        of_parent = above.get_span_context()
        if self._gate is None or not of_parent.trace_flags & TraceFlags.SAMPLED:
            return self._tracer.start_span(
                name,
                context=context,
                kind=kind,
                attributes=attributes,
                start_time=start_time,
                links=_links(links),
            )
        span = RecordedSpan(
            name,
            _own_context(of_parent),
            of_parent,
            resource=self._resource,
            kind=kind,
            attributes=attributes,
            start_time=start_time,
            links=_links(links),
            export=self._gate.on_end,
        )
        hand_down_tenant(above, span)
        return span

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: Context | str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        links: Sequence[str] = (),
    ) -> Iterator[Span]:
        """Runs the block inside a span; an exception marks it as failed, by reason or type only."""
        span = self.start(name, parent=parent, kind=kind, attributes=attributes, links=links)
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            yield span
        except BaseException as exc:
            mark_failed(span, exc)
            raise
        finally:
            otel_context.detach(token)
            span.end()

    def record(
        self,
        name: str,
        *,
        parent: Context | str | None,
        start_us: int,
        end_us: int,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        events: Sequence[SpanEvent] = (),
        error: str | None = None,
    ) -> str:
        """Writes a span of the past from its timestamps, Unix microseconds.

        `error` marks it as failed and is its description: a reason, or the name of a type. An
        end before the start (clocks of two machines) is moved to the start. Returns the span's
        `traceparent`, for children.
        """
        if isinstance(parent, str) and is_sampled(parent):
            # Nothing is to be decided, and a span of the SDK costs twice as much.
            own = f"{parent[:36]}{secrets.randbits(64) or 1:016x}{parent[52:]}"
            self.record_as(
                own,
                name,
                parent=parent,
                start_us=start_us,
                end_us=end_us,
                kind=kind,
                attributes=attributes,
                events=events,
                error=error,
            )
            return own
        span = self.start(name, parent=parent, kind=kind, attributes=attributes, start_us=start_us)
        for event in events:
            span.add_event(event.name, event.attributes, timestamp=event.time_us * 1_000)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_time=max(start_us, end_us) * 1_000)
        return traceparent_of(span)

    def keeps(self, span: Span | str, kind: ErrorKind | None) -> bool:
        """Whether a trace that is not recorded is to be written all the same, for its error.

        Asked again of the same trace it answers the same. False for what is recorded anyway.

        Args:
            span: any of the trace, or its `traceparent`.
            kind: of the error; None for none.
        """
        if kind is None or self._gate is None:
            return False
        if isinstance(span, str):
            unrecorded = unrecorded_span(span)
            if unrecorded is None:
                return False
            span = unrecorded
        context = span.get_span_context()
        if not context.is_valid or context.trace_flags & TraceFlags.SAMPLED:
            return False
        return self._errors.takes(context.trace_id, kind)

    def record_as(
        self,
        own: str,
        name: str,
        *,
        parent: str,
        start_us: int,
        end_us: int,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        events: Sequence[SpanEvent] = (),
        links: Sequence[str] = (),
        error: str | None = None,
    ) -> None:
        """Writes a span under ids that were given out before: others may be its children already.

        It is written whether or not its trace is recorded: see `keeps`. Where ids need not be
        kept, use `record` with `as_sampled(traceparent)`.

        Args:
            own: its own `traceparent`.
            parent: its parent's; empty for none.
            name, start_us, end_us, kind, attributes, events, error: see `record`.
            links: see `start`.
        """
        if self._gate is None:
            return
        context, above = span_context_of(as_sampled(own)), span_context_of(parent)
        written = ReadableSpan(
            name=name,
            context=context,
            parent=above if above.is_valid else None,
            resource=self._resource,
            attributes=dict(attributes or {}),
            events=[Event(e.name, dict(e.attributes), e.time_us * 1_000) for e in events],
            links=_links(links),
            kind=kind,
            status=Status() if error is None else Status(StatusCode.ERROR, error),
            start_time=start_us * 1_000,
            end_time=max(start_us, end_us) * 1_000,
            instrumentation_scope=SCOPE,
        )
        self._gate.on_end(written)

    def shutdown(self, timeout_s: float = 3.0) -> None:
        """Exports what is left for at most `timeout_s`, then drops the rest. Blocks."""
        # The SDK's own bound is 30 s and more when the collector is down.
        flush = threading.Thread(target=self._provider.shutdown, name="otlp-flush", daemon=True)
        flush.start()
        flush.join(timeout_s)


def setup_tracing(
    service: str,
    *,
    endpoint: str = "",
    tenant_endpoints: Mapping[str, str] | None = None,
    sample_ratio: float = 1.0,
    instance: str = "",
    errors: ErrorBudget | None = None,
) -> Tracing:
    """Tracing that exports over OTLP/gRPC to `endpoint`, or to nowhere when that is empty.

    Spans of the tenants in `tenant_endpoints` go to their own alone. An `http://` endpoint, or
    one without scheme, is plain text; `https://` is TLS.
    """
    return Tracing(
        service,
        processor=_exporting(endpoint) if endpoint else None,
        tenants={tenant: _exporting(url) for tenant, url in (tenant_endpoints or {}).items()},
        sample_ratio=sample_ratio,
        instance=instance,
        errors=errors,
    )


def _exporting(endpoint: str) -> SpanProcessor:
    exporter = OTLPSpanExporter(
        endpoint=endpoint,
        insecure=not endpoint.startswith("https://"),
        timeout=_EXPORT_TIMEOUT_S,
    )
    return BatchSpanProcessor(exporter, schedule_delay_millis=_EXPORT_DELAY_MS)


def _own_context(parent: SpanContext) -> SpanContext:
    span_id = secrets.randbits(64) or 1
    return SpanContext(parent.trace_id, span_id, False, parent.trace_flags, parent.trace_state)


def _links(traceparents: Sequence[str]) -> Sequence[Link]:
    if not traceparents:
        return ()
    contexts = map(span_context_of, traceparents)
    return [Link(context) for context in contexts if context.is_valid]


def _resource(service: str, instance: str) -> Resource:
    attributes = {"service.name": service, "service.namespace": "tokenweir"}
    if instance:
        attributes["service.instance.id"] = instance
    created = Resource.create(attributes)
    return SpanResource(created.attributes, created.schema_url)
