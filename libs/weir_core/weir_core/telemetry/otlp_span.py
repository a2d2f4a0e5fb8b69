"""Spans as OTLP messages, put together from parts that were encoded before.

Nearly all of a span has been in one before: its name, its kind, the names and most of the values
of its attributes. Each such part is hidden and encoded once and kept as bytes. Encoded parts of a
message that are put one behind the other are the message: protobuf merges them.
"""

from functools import lru_cache

from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags
from opentelemetry.proto.trace.v1.trace_pb2 import Status as PbStatus
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from weir_core.telemetry.otlp_attributes import AttributeParts
from weir_core.telemetry.recorded_span import Moment, RecordedSpan
from weir_core.telemetry.redaction import mask_keys
from weir_core.telemetry.span_redaction import clean_status

_FORMS = 1_024
_KINDS = {
    SpanKind.INTERNAL: Span.SPAN_KIND_INTERNAL,
    SpanKind.SERVER: Span.SPAN_KIND_SERVER,
    SpanKind.CLIENT: Span.SPAN_KIND_CLIENT,
    SpanKind.PRODUCER: Span.SPAN_KIND_PRODUCER,
    SpanKind.CONSUMER: Span.SPAN_KIND_CONSUMER,
}
_CODES = {
    StatusCode.UNSET: PbStatus.STATUS_CODE_UNSET,
    StatusCode.OK: PbStatus.STATUS_CODE_OK,
    StatusCode.ERROR: PbStatus.STATUS_CODE_ERROR,
}
_OF_SPANS = AttributeParts(Span)
_OF_EVENTS = AttributeParts(Span.Event)
_OF_LINKS = AttributeParts(Span.Link)


def encoded_span(span: RecordedSpan) -> bytes:
    """One `opentelemetry.proto.trace.v1.Span` in which nothing hidden is left.

    Raises:
        ValueError: it has no such form.
    """
    context, parent, status = span.context, span.parent, span.status
    message = Span(
        trace_id=context.trace_id.to_bytes(16, "big"),
        span_id=context.span_id.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.span_id.to_bytes(8, "big"),
        start_time_unix_nano=span.start_time,
        end_time_unix_nano=span.end_time,
    )
    if context.trace_state:
        message.trace_state = ",".join(f"{k}={v}" for k, v in context.trace_state.items())
    for moment in span.events:
        _add_event(message, moment)
    for link in span.links:
        _add_link(message, link)
    remote = parent is not None and parent.is_remote
    form = _form(span.name, span.kind, status.status_code, status.description, remote)
    return message.SerializeToString() + form + _OF_SPANS.encoded(span.attributes)


@lru_cache(maxsize=_FORMS)
def _form(
    name: str, kind: SpanKind, code: StatusCode, description: str | None, remote: bool
) -> bytes:
    clean = clean_status(Status(code, description))
    return Span(
        name=mask_keys(name),
        kind=_KINDS[kind],
        status=PbStatus(code=_CODES[clean.status_code], message=clean.description or ""),
        flags=_flags(remote),
    ).SerializeToString()


def _add_event(message: Span, moment: Moment) -> None:
    event = message.events.add(time_unix_nano=moment.time_ns)
    event.MergeFromString(_event_name(moment.name) + _OF_EVENTS.encoded(moment.attributes))


@lru_cache(maxsize=_FORMS)
def _event_name(name: str) -> bytes:
    return Span.Event(name=mask_keys(name)).SerializeToString()


def _add_link(message: Span, link: Link) -> None:
    context = link.context
    added = message.links.add(
        trace_id=context.trace_id.to_bytes(16, "big"),
        span_id=context.span_id.to_bytes(8, "big"),
        flags=_flags(context.is_remote),
    )
    added.MergeFromString(_OF_LINKS.encoded(link.attributes or {}))


def _flags(remote: bool) -> int:
    known = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
    return known | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK if remote else known
