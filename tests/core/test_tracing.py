"""What is decided about a span when it starts, and what of it is passed on."""

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from weir_core.telemetry.span_context import context_from, span_context_of, traceparent_of
from weir_core.telemetry.tracing import Tracing

RECORDED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
IGNORED = RECORDED[:-1] + "0"


def recording(ratio: float = 1.0) -> tuple[Tracing, InMemorySpanExporter]:
    spans = InMemorySpanExporter()
    return Tracing("t", processor=SimpleSpanProcessor(spans), sample_ratio=ratio), spans


def test_a_caller_decides_and_its_trace_goes_on() -> None:
    tracing, spans = recording(ratio=0.0)
    for parent, is_recorded in ((RECORDED, True), (IGNORED, False)):
        span = tracing.start("a", parent=parent)
        own = traceparent_of(span)
        assert span.is_recording() is is_recorded
        assert (own[:36], own[-2:]) == (parent[:36], parent[-2:])
        assert own[36:52] != parent[36:52]
        span.end()
    (written,) = spans.get_finished_spans()
    assert written.parent is not None
    assert f"{written.parent.span_id:016x}" == RECORDED[36:52]


def test_without_a_target_ids_and_the_callers_decision_are_passed_on_and_nothing_is_kept() -> None:
    tracing = Tracing("t")
    below = tracing.start("a", parent=RECORDED)
    assert not below.is_recording()
    assert traceparent_of(below)[-2:] == "01"
    root = tracing.start("a", parent="")
    assert root.get_span_context().is_valid
    assert not root.get_span_context().trace_flags.sampled


def test_of_new_traces_the_share_is_recorded() -> None:
    tracing, _ = recording(ratio=0.25)
    started = [tracing.start("a", parent="") for _ in range(2_000)]
    # 7 standard deviations to each side.
    assert 365 < sum(span.is_recording() for span in started) < 635
    assert len({span.get_span_context().trace_id for span in started}) == len(started)


def test_work_that_was_left_by_a_recorded_trace_is_recorded() -> None:
    tracing, spans = recording(ratio=0.0)
    tracing.start("later", parent="", links=[RECORDED]).end()
    tracing.start("later", parent="", links=[IGNORED]).end()
    (written,) = spans.get_finished_spans()
    assert [f"{link.context.trace_id:032x}" for link in written.links] == [RECORDED[3:35]]


def test_what_is_told_after_the_end_is_not_seen() -> None:
    tracing, spans = recording()
    span = tracing.start("a", parent="", attributes={"n": 1}, start_us=5)
    span.add_event("e", {"m": 2}, timestamp=7_000)
    span.end(end_time=9_000)
    span.set_attribute("n", 3)
    span.end(end_time=11_000)
    (written,) = spans.get_finished_spans()
    assert (written.start_time, written.end_time) == (5_000, 9_000)
    assert dict(written.attributes or {}) == {"n": 1}
    assert [(e.name, dict(e.attributes or {}), e.timestamp) for e in written.events] == [
        ("e", {"m": 2}, 7_000)
    ]


@pytest.mark.parametrize(
    "traceparent",
    [
        RECORDED,
        IGNORED,
        RECORDED[:-2] + "ff",
        "00-" + "0" * 32 + RECORDED[35:],
        RECORDED[:36] + "0" * 16 + "-01",
        RECORDED.upper(),
        "cc" + RECORDED[2:],
        "cc" + RECORDED[2:] + "-what-comes-later",
        "ff" + RECORDED[2:],
        RECORDED + "-more",
        f" {RECORDED}",
        "nonsense",
        "",
    ],
)
@pytest.mark.parametrize("tracestate", ["", "a=1,b=2"])
def test_a_context_is_what_the_library_reads(traceparent: str, tracestate: str) -> None:
    carrier = {"traceparent": traceparent, "tracestate": tracestate}
    theirs = TraceContextTextMapPropagator().extract(carrier, context=Context())
    expected = trace.get_current_span(theirs).get_span_context()
    read = trace.get_current_span(context_from(traceparent, tracestate)).get_span_context()
    assert read.is_valid == expected.is_valid
    if expected.is_valid:
        assert read == expected
    if not tracestate:
        assert span_context_of(traceparent).is_valid == expected.is_valid
