"""The trace that a measurement came from, kept beside it: from a slow bucket to a slow request."""

from opentelemetry.trace import Span, TraceFlags

TRACE_ID = "trace_id"
Exemplar = dict[str, str]

_LENGTH = 55


def exemplar_of(span: Span) -> Exemplar | None:
    """The trace of a span; None when it is not recorded, as there is nothing to be found then."""
    context = span.get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return {TRACE_ID: f"{context.trace_id:032x}"}


def exemplar_of_parent(traceparent: str) -> Exemplar | None:
    """The trace of a W3C `traceparent`, likewise; None when it is empty."""
    if len(traceparent) != _LENGTH:
        return None
    try:
        sampled = int(traceparent[-2:], 16) & TraceFlags.SAMPLED
    except ValueError:
        return None
    return {TRACE_ID: traceparent[3:35]} if sampled else None
