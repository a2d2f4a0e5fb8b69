"""Contexts of spans, from and to the W3C headers in which they travel."""

import random

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from weir_core.telemetry.traceparent import TRACEPARENT

_FLAGS = [TraceFlags(flags) for flags in range(256)]
_W3C = TraceContextTextMapPropagator()


def context_from(traceparent: str, tracestate: str = "") -> Context:
    """The context of a W3C `traceparent`; an empty context when it is empty or malformed."""
    if not traceparent:
        return Context()
    if not tracestate and TRACEPARENT.fullmatch(traceparent):
        return trace.set_span_in_context(NonRecordingSpan(span_context_of(traceparent)), Context())
    carrier = {"traceparent": traceparent, "tracestate": tracestate}
    return _W3C.extract(carrier, context=Context())


def span_context_of(traceparent: str, *, sampled: bool = False) -> SpanContext:
    """The context that a `traceparent` names; an invalid one when it names none.

    `sampled` makes it one that is recorded, if it was not.
    """
    parts = TRACEPARENT.fullmatch(traceparent)
    if parts is not None:
        flags = _FLAGS[int(parts[3], 16) | sampled]
        return SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=flags)
    # Malformed, or of a later version.
    return trace.get_current_span(context_from(traceparent)).get_span_context()


def unrecorded_span(traceparent: str) -> Span | None:
    """Stands for a span of a trace whose caller decided not to record it.

    None if `traceparent` asks for recording, is malformed, or of a later version.
    """
    parts = TRACEPARENT.fullmatch(traceparent)
    if parts is None or int(parts[3], 16) & TraceFlags.SAMPLED:
        return None
    context = SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True)
    return NonRecordingSpan(context) if context.is_valid else None


def traceparent_of(span: Span) -> str:
    """The W3C `traceparent` of a span, or an empty string when it has none."""
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def tracestate_of(span: Span) -> str:
    """The W3C `tracestate` of a span, which other systems put there; mostly empty."""
    state = span.get_span_context().trace_state
    return state.to_header() if state else ""


def current_traceparent() -> str:
    """The `traceparent` of the current span, or an empty string."""
    return traceparent_of(trace.get_current_span())


def make_current(span: Span) -> None:
    """Makes a span current for the rest of this task.

    For RPC handlers, which end with their task. Never undone on purpose: a token cannot be
    reset in the other context in which an abandoned generator may be closed.
    """
    otel_context.attach(trace.set_span_in_context(span))


def begin_no_traces() -> None:
    """What this task calls from here on is not recorded, unless it fails.

    For looks at other services that repeat: each would be a trace of its own, and they would
    fill a viewer.
    """
    context = SpanContext(random.getrandbits(128) or 1, random.getrandbits(64) or 1, False)
    make_current(NonRecordingSpan(context))
