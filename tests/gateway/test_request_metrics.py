"""What is counted of a request, under which label, and with which trace beside it."""

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import Usage
from weir_core.errors import LimitExceeded, Reason, Violation
from weir_core.telemetry.busiest import Busiest
from weir_core.telemetry.exemplars import exemplar_of, exemplar_of_parent
from weir_gateway.metrics import GatewayMetrics

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
TRACE_ID = f"{TRACE:032x}"
ARRIVED_US = 1_700_000_000_000_000


class Counted:
    """Metrics with a clock that is set, and two names for tenants."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.registry = CollectorRegistry()
        self.metrics = GatewayMetrics(self.registry, tenants=Busiest(2, now_s=lambda: self.now_s))

    def end(self, tenant: str, tokens: int, exemplar: dict[str, str] | None = None) -> None:
        record = LifecycleRecord(
            subject=Subject(tenant_id=tenant, model="m", model_version="1"),
            outcome=Outcome.OUTCOME_OK,
            prompt_tokens_estimated=10,
            usage=Usage(prompt_tokens=10, completion_tokens=tokens),
        )
        record.first_token_time.FromMicroseconds(ARRIVED_US + 200_000)
        record.end_time.FromMicroseconds(ARRIVED_US + 1_200_000)
        self.metrics.ended(record, ARRIVED_US, exemplar)

    def read(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def names(self, metric: str) -> set[str]:
        return {
            sample.labels["tenant"]
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == metric
        }


def test_times_and_lengths_are_under_both_names() -> None:
    counted = Counted()
    counted.end("acme", 11)
    semantic = {"gen_ai_request_model": "m"}
    assert counted.read("time_to_first_token_sum", model="m") == 0.2
    assert counted.read("gen_ai_server_time_to_first_token_sum", **semantic) == 0.2
    assert counted.read("end_to_end_latency_sum", model="m") == 1.2
    assert counted.read("gen_ai_server_request_duration_sum", **semantic) == 1.2
    # Ten tokens after the first, in one second.
    assert counted.read("tokens_per_second_sum", model="m") == 10
    assert counted.read("gen_ai_server_time_per_output_token_sum", **semantic) == 0.1
    for kind, tokens in (("input", 10), ("output", 11)):
        usage = counted.read("gen_ai_client_token_usage_sum", **semantic, gen_ai_token_type=kind)
        assert usage == tokens
        assert tokens == counted.read(
            "weir_gateway_tokens_total", tenant="acme", model="m", direction=kind
        )
    assert counted.read("weir_gateway_prompt_tokens_sum", model="m") == 10


def test_a_tenant_that_becomes_busy_is_counted_under_its_name_from_then_on() -> None:
    counted = Counted()
    for tenant, tokens in (("a", 500), ("b", 1), ("c", 90), ("c", 90)):
        counted.end(tenant, tokens)
    assert counted.names("weir_gateway_tokens_total") == {"a", "b", "other"}
    counted.now_s = 61
    counted.end("c", 7)
    counted.end("b", 3)
    assert counted.names("weir_gateway_tokens_total") == {"a", "c", "other"}
    assert counted.names("weir_gateway_requests_total") == {"a", "c", "other"}
    output = {"model": "m", "direction": "output"}
    assert counted.read("weir_gateway_tokens_total", tenant="c", **output) == 7
    assert counted.read("weir_gateway_tokens_total", tenant="other", **output) == 183


def test_a_refusal_is_counted_by_tenant_and_limit() -> None:
    counted = Counted()
    counted.metrics.refused(limited("tenant:acme/tpm"), "acme")
    labels = {"tenant": "acme", "limit_type": "tpm", "limit": "tpm"}
    assert counted.read("weir_gateway_limited_total", **labels) == 1


def limited(limit_id: str) -> LimitExceeded:
    violation = Violation(
        limit_id=limit_id,
        limit_type="tpm",
        resource="tokens",
        layer="tenant",
        limit=10,
        used=8,
        requested=5,
        reset_time_ms=0,
        knob="rate",
    )
    return LimitExceeded(Reason.TOKEN_LIMIT_EXCEEDED, "too many", [violation], retry_after_s=1.0)


def test_a_recorded_trace_stands_beside_its_times() -> None:
    counted = Counted()
    counted.end("acme", 5, {"trace_id": TRACE_ID})
    counted.end("acme", 5)
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    page = encode(counted.registry).decode()
    beside = [line.split("_bucket")[0] for line in page.splitlines() if TRACE_ID in line]
    assert sorted(beside) == [
        "end_to_end_latency",
        "gen_ai_server_request_duration",
        "gen_ai_server_time_to_first_token",
        "time_to_first_token",
    ]


def test_a_trace_is_named_only_if_it_is_recorded() -> None:
    for flags, named in ((1, {"trace_id": TRACE_ID}), (0, None)):
        context = SpanContext(TRACE, 7, is_remote=True, trace_flags=TraceFlags(flags))
        assert exemplar_of(NonRecordingSpan(context)) == named
        assert exemplar_of_parent(f"00-{TRACE_ID}-b7ad6b7169203331-0{flags}") == named
    for broken in ("", "00-x", f"00-{TRACE_ID}-b7ad6b7169203331-zz"):
        assert exemplar_of_parent(broken) is None
