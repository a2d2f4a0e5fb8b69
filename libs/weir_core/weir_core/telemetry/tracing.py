"""OpenTelemetry tracing without globals: one `Tracing` per service, passed to who needs it.

Requests share streams, so a span's parent mostly comes as a `traceparent` string inside a
frame, and the spans of queue, prefill and decode are written afterwards from timestamps.
"""

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
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
from weir_core.telemetry.recorded_span import RecordedSpan
from weir_core.telemetry.span_context import span_context_of, traceparent_of, unrecorded_span
from weir_core.telemetry.span_redaction import (
    RedactedSpans,
    SpanGate,
    SpanTarget,
    hand_down_tenant,
)
from weir_core.telemetry.span_status import mark_failed

Attribute = str | bool | int | float | Sequence[str] | Sequence[int] | Sequence[float]
Attributes = Mapping[str, Attribute]
Target = SpanProcessor | SpanTarget

_RECORDED = TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID)
_NOT_RECORDED = TraceFlags(TraceFlags.RANDOM_TRACE_ID)


class SpanEvent(NamedTuple):
    """Something that happened at one moment of a span, Unix microseconds."""

    name: str
    time_us: int
    attributes: Attributes


class Tracing:
    """Starts and exports the spans of one service.

    Args:
        service: `service.name` of the resource, such as `weir-gateway`.
        processor: where ended spans go, redacted: a processor of the SDK, or a target that
            hides by itself. None drops them, ids are still made and passed on.
        tenants: where those of a tenant go instead, by its id.
        sample_ratio: share of new traces recorded, 0 to 1; a caller's decision always wins.
        instance: `service.instance.id`, such as the worker's id.
        errors: how many traces are written because of their error, against the decision.
    """

    def __init__(
        self,
        service: str,
        *,
        processor: Target | None = None,
        tenants: Mapping[str, Target] | None = None,
        sample_ratio: float = 1.0,
        instance: str = "",
        errors: ErrorBudget | None = None,
    ) -> None:
        self._sampler = LinkedRatio(sample_ratio)
        self._errors = errors or ErrorBudget()
        self._gate: SpanGate | None = None
        if processor is not None or tenants:
            self._gate = SpanGate(
                _resource(service, instance),
                None if processor is None else _target(processor),
                {tenant: _target(one) for tenant, one in (tenants or {}).items()},
            )

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
        above = _span_of(parent)
        of_parent = above.get_span_context()
        linked = _links(links)
        context = self._context_below(of_parent, name, linked)
        if self._gate is None or not context.trace_flags & TraceFlags.SAMPLED:
            return NonRecordingSpan(context)
        span = RecordedSpan(
            name,
            context,
            of_parent if of_parent.is_valid else None,
            kind=kind,
            attributes=attributes,
            start_time=None if start_us is None else start_us * 1_000,
            links=linked,
            export=self._gate.take,
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
        span = self.start(name, parent=parent, kind=kind, attributes=attributes, start_us=start_us)
        _end(span, events, error, max(start_us, end_us))
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
        kept, use `record` below `as_sampled(traceparent)`.

        Args:
            own: its own `traceparent`.
            parent: its parent's; empty for none.
            name, start_us, end_us, kind, attributes, events, error: see `record`.
            links: see `start`.
        """
        if self._gate is None:
            return
        above = span_context_of(parent)
        span = RecordedSpan(
            name,
            span_context_of(own, sampled=True),
            above if above.is_valid else None,
            kind=kind,
            attributes=attributes,
            start_time=start_us * 1_000,
            links=_links(links),
            export=self._gate.take,
        )
        _end(span, events, error, max(start_us, end_us))

    def shutdown(self, timeout_s: float = 3.0) -> None:
        """Exports what is left for at most `timeout_s`, then drops the rest. Blocks."""
        if self._gate is None:
            return
        # The SDK's own bound is 30 s and more when the collector is down.
        flush = threading.Thread(target=self._gate.shutdown, name="otlp-flush", daemon=True)
        flush.start()
        flush.join(timeout_s)

    def _context_below(self, parent: SpanContext, name: str, links: Sequence[Link]) -> SpanContext:
        """New ids, and whether they are recorded: as the parent is, or else by the share."""
        span_id = random.getrandbits(64) or 1
        if parent.is_valid:
            flags, state = parent.trace_flags, parent.trace_state
            return SpanContext(parent.trace_id, span_id, False, flags, state)
        trace_id = random.getrandbits(128) or 1
        taken = self._gate is not None and self._sampler.takes(trace_id, name, links)
        return SpanContext(trace_id, span_id, False, _RECORDED if taken else _NOT_RECORDED)


def _target(target: Target) -> SpanTarget:
    return RedactedSpans(target) if isinstance(target, SpanProcessor) else target


def _span_of(parent: Context | str | None) -> Span:
    if isinstance(parent, str):
        return NonRecordingSpan(span_context_of(parent))
    return trace.get_current_span(parent)


def _end(span: Span, events: Sequence[SpanEvent], error: str | None, end_us: int) -> None:
    for event in events:
        span.add_event(event.name, event.attributes, event.time_us * 1_000)
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(end_us * 1_000)


def _links(traceparents: Sequence[str]) -> Sequence[Link]:
    if not traceparents:
        return ()
    contexts = map(span_context_of, traceparents)
    return [Link(context) for context in contexts if context.is_valid]


def _resource(service: str, instance: str) -> Resource:
    attributes = {"service.name": service, "service.namespace": "tokenweir"}
    if instance:
        attributes["service.instance.id"] = instance
    return Resource.create(attributes)
