"""What is put together from kept parts is what the library's encoder makes of the same span."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from tests.otlp_sink import otlp_sink
from weir_core.telemetry.otlp_export import EncodedSpan, OtlpSpans, batch_of
from weir_core.telemetry.otlp_span import encoded_span
from weir_core.telemetry.recorded_span import RecordedSpan
from weir_core.telemetry.span_redaction import redacted

RESOURCES = [
    Resource({"service.name": "weir-gateway", "weir.tenant.id": tenant}) for tenant in ("a", "b")
]
SECRET = "sk-" + "a1" * 20
# The same values again and again, so that parts are taken from what is kept, and some that are
# equal as keys of a dictionary without being the same.
TEXTS = st.sampled_from(["", "chat m", "ä€😀", SECRET, f"see {SECRET}", "x" * 300, "x" * 3_000])
NUMBERS = st.sampled_from([0, 1, True, False, 0.0, -0.0, 1.0, -1, 2**62, 1e-9, float("inf")])
VALUES = TEXTS | NUMBERS | st.lists(TEXTS, max_size=3) | st.lists(NUMBERS, max_size=3)
NAMES = st.sampled_from(["weir.outcome", "weir.attempt", "gen_ai.prompt", "password", "n"])
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=5)
TIMES = st.integers(1, 2**63)


@st.composite
def contexts(draw: st.DrawFn) -> SpanContext:
    return SpanContext(
        draw(st.integers(1, 2**128 - 1)),
        draw(st.integers(1, 2**64 - 1)),
        is_remote=draw(st.booleans()),
        trace_flags=TraceFlags(3),
        trace_state=TraceState(draw(st.sampled_from([[], [("a", "1")], [("b", "2"), ("c", "")]]))),
    )


@st.composite
def spans(draw: st.DrawFn) -> RecordedSpan:
    ended: list[RecordedSpan] = []
    span = RecordedSpan(
        draw(TEXTS),
        draw(contexts()),
        draw(st.none() | contexts()),
        kind=draw(st.sampled_from(SpanKind)),
        attributes=draw(ATTRIBUTES),
        start_time=draw(TIMES),
        links=[Link(draw(contexts()), draw(ATTRIBUTES)) for _ in range(draw(st.integers(0, 2)))],
        export=ended.append,
    )
    for _ in range(draw(st.integers(0, 2))):
        span.add_event(draw(TEXTS), draw(ATTRIBUTES), draw(TIMES))
    described = st.builds(Status, st.just(StatusCode.ERROR), st.none() | TEXTS)
    span.set_status(draw(described | st.sampled_from(StatusCode).map(Status)))
    span.end(draw(TIMES))
    return ended[0]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(spans(), st.sampled_from(RESOURCES)), min_size=1, max_size=4))
def test_a_batch_is_that_of_the_library(batch: list[tuple[RecordedSpan, Resource]]) -> None:
    ours = batch_of([EncodedSpan(encoded_span(span), of) for span, of in batch])
    theirs = encode_spans([redacted(span, of) for span, of in batch])
    assert SECRET.encode() not in ours.SerializeToString()
    # As receivers read it.
    assert ExportTraceServiceRequest.FromString(ours.SerializeToString()) == theirs


def plain_span(name: str, attributes: dict[str, Any]) -> RecordedSpan:
    span = RecordedSpan(
        name,
        SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1)),
        None,
        kind=SpanKind.INTERNAL,
        attributes=attributes,
        start_time=1,
        links=(),
        export=lambda _: None,
    )
    span.end(2)
    return span


def test_an_attribute_that_otlp_cannot_hold_is_left_out() -> None:
    span = plain_span("n", {"big": 2**64, "half": "\ud800", "kept": 1})
    encoded = batch_of([EncodedSpan(encoded_span(span), RESOURCES[0])])
    (attribute,) = encoded.resource_spans[0].scope_spans[0].spans[0].attributes
    assert attribute.key == "kept"


async def test_a_span_that_cannot_be_encoded_keeps_no_other_from_its_receiver() -> None:
    async with otlp_sink() as sink:
        target = OtlpSpans(sink.endpoint)
        target.take(plain_span("\ud800", {}), RESOURCES[0])
        target.take(plain_span("whole", {"kept": 1}), RESOURCES[1])
        (span,) = await sink.wait_for(lambda spans: len(spans) > 0, timeout_s=60.0)
        assert (span.name, span.attributes) == ("whole", {"kept": 1})
        assert span.resource["weir.tenant.id"] == "b"
        target.shutdown()
