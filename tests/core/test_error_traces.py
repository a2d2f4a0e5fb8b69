"""Errors are exported although their traces were not to be recorded, and no storm of them is."""

import secrets
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.core.support import echo_server
from weir_core.config import ServiceSettings
from weir_core.errors import LimitExceeded, Reason, Violation, WeirError
from weir_core.telemetry import names
from weir_core.telemetry.error_budget import ErrorBudget
from weir_core.telemetry.error_kind import ErrorKind, error_attributes, kind_of
from weir_core.telemetry.span_catalogue import ATTRIBUTES, SPANS
from weir_core.telemetry.span_context import traceparent_of
from weir_core.telemetry.telemetry import setup_telemetry
from weir_core.telemetry.traceparent import as_sampled, child_of, is_sampled
from weir_core.telemetry.tracing import Tracing


def unsampled() -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"


def silent(errors: ErrorBudget | None = None) -> tuple[Tracing, InMemorySpanExporter]:
    """Tracing that records nothing of its own accord."""
    spans = InMemorySpanExporter()
    processor = SimpleSpanProcessor(spans)
    return Tracing("t", processor=processor, sample_ratio=0.0, errors=errors), spans


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def test_the_catalogue_tells_of_every_name() -> None:
    constants = {name: value for name, value in vars(names).items() if name.isupper()}
    spans = {value for name, value in constants.items() if name.startswith("SPAN_")}
    assert spans <= {form.name for form in SPANS}
    attributes = {v for name, v in constants.items() if not name.startswith(("SPAN_", "PROVIDER"))}
    assert attributes == ATTRIBUTES.keys()


def test_a_kind_is_of_the_status_that_the_caller_gets() -> None:
    assert kind_of(Reason.INTERNAL) is kind_of(Reason.WORKER_LOST) is ErrorKind.FAULT
    assert (
        kind_of(Reason.INVALID_FIELD) is kind_of(Reason.TOKEN_LIMIT_EXCEEDED) is ErrorKind.REFUSAL
    )
    assert kind_of(Reason.CANCELLED) is None
    # Whoever has no key could use up the refusals of those who have.
    assert kind_of(Reason.API_KEY_INVALID) is None


def test_of_a_refusal_ids_and_layers_are_told_and_no_numbers() -> None:
    violations = [
        Violation(f"{layer}:x/tpm", "tpm", "tokens", layer, 987654, 876543, 765432, 654321, "knob")
        for layer in ("cluster", "tenant")
    ]
    error = LimitExceeded(Reason.TOKEN_LIMIT_EXCEEDED, "987654", violations, retry_after_s=1.5)
    told = error_attributes(error)
    assert told[names.LIMIT_IDS] == ["cluster:x/tpm", "tenant:x/tpm"]
    assert told[names.LIMIT_LAYERS] == ["cluster", "tenant"]
    assert not any(number in repr(told) for number in ("987654", "876543", "765432", "654321"))


def test_a_storm_of_one_kind_spends_its_own_budget() -> None:
    now, dropped = [0.0], list[ErrorKind]()
    budget = ErrorBudget("all", 2, on_dropped=dropped.append, now=lambda: now[0])
    taken = [trace for trace in range(1, 101) if budget.takes(trace, ErrorKind.REFUSAL)]
    assert taken == [1, 2]
    assert dropped == [ErrorKind.REFUSAL] * 98
    assert budget.takes(200, ErrorKind.FAULT)
    # What was decided about a trace holds for all its spans, and is counted once.
    assert budget.takes(1, ErrorKind.REFUSAL)
    assert not budget.takes(50, ErrorKind.REFUSAL)
    assert len(dropped) == 98
    now[0] = 0.5
    assert budget.takes(300, ErrorKind.REFUSAL)
    assert not budget.takes(301, ErrorKind.REFUSAL)


@pytest.mark.parametrize(
    ("kept", "faults", "refusals"),
    [("all", True, True), ("faults", True, False), ("none", False, False)],
)
def test_a_setting_says_which_kinds_are_kept(kept: Any, faults: bool, refusals: bool) -> None:
    budget = ErrorBudget(kept)
    assert budget.takes(1, ErrorKind.FAULT) is faults
    assert budget.takes(2, ErrorKind.REFUSAL) is refusals


def test_dropped_traces_are_counted() -> None:
    settings = ServiceSettings(otlp_endpoint="http://127.0.0.1:9", trace_errors_per_s=1)
    telemetry = setup_telemetry("test", settings)
    for _ in range(5):
        telemetry.tracing.keeps(unsampled(), ErrorKind.FAULT)
    dropped = telemetry.registry.get_sample_value
    assert dropped("weir_trace_errors_dropped_total", {"kind": "fault"}) == 4
    assert dropped("weir_trace_errors_dropped_total", {"kind": "refusal"}) == 0
    telemetry.tracing.shutdown(0.5)


def test_a_span_that_was_not_recorded_keeps_its_ids_and_so_its_children() -> None:
    tracing, spans = silent()
    root = tracing.start("root", parent="")
    own = traceparent_of(root)
    assert not root.is_recording()
    assert tracing.keeps(root, ErrorKind.FAULT)
    assert tracing.keeps(own, ErrorKind.FAULT)
    assert not tracing.keeps(as_sampled(own), ErrorKind.FAULT), "it is recorded anyway"
    assert not tracing.keeps(unsampled(), None)
    tracing.record("child", parent=as_sampled(own), start_us=1, end_us=2)
    tracing.record_as(
        own,
        "root",
        parent="",
        start_us=1,
        end_us=3,
        kind=SpanKind.SERVER,
        attributes={names.TENANT_ID: "acme", "prompt": "hidden"},
        error="INTERNAL",
    )
    found = by_name(spans)
    assert found["child"].parent is not None
    assert found["child"].parent.span_id == root.get_span_context().span_id
    assert found["root"].context.span_id == root.get_span_context().span_id
    assert found["root"].parent is None
    assert "hidden" not in found["root"].to_json()
    assert found["root"].resource.attributes[names.TENANT_ID] == "acme"
    assert names.TENANT_ID not in found["child"].resource.attributes
    tracing.shutdown()


def test_a_tenants_spans_have_a_resource_of_their_own() -> None:
    spans = InMemorySpanExporter()
    tracing = Tracing("t", processor=SimpleSpanProcessor(spans), instance="t-1")
    for tenant in ("acme", "globex", "acme"):
        tracing.start(tenant, parent="", attributes={names.TENANT_ID: tenant}).end()
    first, other, again = spans.get_finished_spans()
    assert first.resource.attributes[names.TENANT_ID] == "acme"
    assert other.resource.attributes[names.TENANT_ID] == "globex"
    assert first.resource is again.resource
    assert first.resource.attributes["service.instance.id"] == "t-1"
    tracing.shutdown()


def test_what_comes_from_a_recorded_trace_is_recorded() -> None:
    tracing, spans = silent()
    left = as_sampled(unsampled())
    tracing.start("later", parent="", links=[left]).end()
    tracing.start("of nobody", parent="", links=[unsampled()]).end()
    (span,) = spans.get_finished_spans()
    assert span.name == "later"
    assert f"{span.links[0].context.trace_id:032x}" == left.split("-")[1]
    tracing.shutdown()


def test_a_child_is_known_by_its_number_alone() -> None:
    parent = unsampled()
    children = {child_of(parent, number) for number in range(1, 100)}
    assert len(children) == 99
    assert parent not in children
    assert all(child[:36] == parent[:36] for child in children)
    assert is_sampled(as_sampled(parent))
    assert not is_sampled(parent)
    assert as_sampled("garbage") == child_of("garbage", 1) == "garbage"


@pytest.mark.parametrize("sent", [unsampled, str], ids=["the caller's decision", "our decision"])
async def test_an_rpc_that_fails_has_a_span_whoever_decided(sent: Callable[[], str]) -> None:
    async def fail(_: bytes, __: object) -> bytes:
        raise WeirError(Reason.TOKEN_LIMIT_EXCEEDED, "there is no room")

    async def succeed(_: bytes, __: object) -> bytes:
        return b""

    tracing, spans = silent()
    traceparent = sent()
    metadata = (("traceparent", traceparent),) if traceparent else ()
    async with echo_server(tracing=tracing, F=("unary", fail), S=("unary", succeed)) as echo:
        await echo.unary("S")(b"", metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError):
            await echo.unary("F")(b"", metadata=metadata)
    (span,) = spans.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert span.name.endswith("/F")
    assert attributes[names.REASON] == "TOKEN_LIMIT_EXCEEDED"
    assert attributes[names.RPC_GRPC_STATUS_CODE] == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    if traceparent:
        assert f"{span.context.trace_id:032x}" == traceparent.split("-")[1]
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == traceparent.split("-")[2]
    tracing.shutdown()
