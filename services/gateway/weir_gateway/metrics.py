"""What the gateway counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir_core.errors import LimitExceeded, WeirError
from weir_core.telemetry.metrics import (
    REQUEST_LATENCY_BUCKETS,
    TOKEN_COUNT_BUCKETS,
    TTFT_BUCKETS,
    LabelCap,
)

_SPEED_BUCKETS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0, 400.0, 1000.0,
)  # fmt: skip
_OUTCOMES = {number: name.removeprefix("OUTCOME_").lower() for name, number in Outcome.items()}


class GatewayMetrics:
    """Counters and histograms of requests; tenants and models are bounded labels.

    `time_to_first_token`, `tokens_per_second` and `end_to_end_latency` are measured where the
    client is; those beginning with `gen_ai_` are their names by semantic convention.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tenants = LabelCap()
        self._models = LabelCap()
        self._limits = LabelCap()
        labels = ("model",)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        self._requests = Counter(
            "weir_gateway_requests",
            "Accepted requests that ended, by outcome",
            ("tenant", "model", "outcome"),
            registry=registry,
        )
        self._refused = Counter(
            "weir_gateway_refused", "Requests refused, by reason", ("reason",), registry=registry
        )
        self._limited = Counter(
            "weir_gateway_limited",
            "Requests refused by a limit (429)",
            ("tenant", "limit_type", "limit"),
            registry=registry,
        )
        self._tokens = Counter(
            "weir_gateway_tokens",
            "Tokens of ended requests",
            ("tenant", "model", "direction"),
            registry=registry,
        )
        self._unsettled = Counter(
            "weir_gateway_unsettled", "Settlements left to the sweep", registry=registry
        )
        self.in_flight = Gauge(
            "weir_gateway_requests_in_flight", "Requests between arrival and end", registry=registry
        )
        self._first = (
            histogram("time_to_first_token", "Seconds to the first token", TTFT_BUCKETS),
            histogram("gen_ai_server_time_to_first_token", "Seconds, as above", TTFT_BUCKETS),
        )
        self._latency = (
            histogram("end_to_end_latency", "Seconds to the end", REQUEST_LATENCY_BUCKETS),
            histogram(
                "gen_ai_server_request_duration", "Seconds, as above", REQUEST_LATENCY_BUCKETS
            ),
        )
        self._speed = histogram(
            "tokens_per_second", "Output tokens a second after the first", _SPEED_BUCKETS
        )
        self._prompt = histogram(
            "weir_gateway_prompt_tokens", "Prompt tokens of requests", TOKEN_COUNT_BUCKETS
        )
        self._output = histogram(
            "weir_gateway_output_tokens", "Output tokens of requests", TOKEN_COUNT_BUCKETS
        )

    def refused(self, error: WeirError, tenant_id: str) -> None:
        """A request was refused before it was accepted."""
        self._refused.labels(error.reason).inc()
        if isinstance(error, LimitExceeded):
            tenant = self._tenants.label(tenant_id)
            for violation in error.violations:
                limit = self._limits.label(violation.limit_id.rpartition("/")[2])
                self._limited.labels(tenant, violation.limit_type, limit).inc()

    def unsettled(self) -> None:
        """A settlement was given up."""
        self._unsettled.inc()

    def ended(self, record: LifecycleRecord, arrived_us: int) -> None:
        """An accepted request has ended."""
        tenant = self._tenants.label(record.subject.tenant_id)
        model = self._models.label(record.subject.model)
        self._requests.labels(tenant, model, _OUTCOMES[record.outcome]).inc()
        usage = record.usage
        self._tokens.labels(tenant, model, "input").inc(usage.prompt_tokens)
        self._tokens.labels(tenant, model, "output").inc(usage.completion_tokens)
        self._prompt.labels(model).observe(record.prompt_tokens_estimated)
        self._output.labels(model).observe(usage.completion_tokens)
        end_us = record.end_time.ToMicroseconds()
        for histogram in self._latency:
            histogram.labels(model).observe((end_us - arrived_us) / 1e6)
        if record.HasField("first_token_time"):
            self._first_token(record, model, arrived_us, end_us)

    def _first_token(
        self, record: LifecycleRecord, model: str, arrived_us: int, end_us: int
    ) -> None:
        first_us = record.first_token_time.ToMicroseconds()
        for histogram in self._first:
            histogram.labels(model).observe((first_us - arrived_us) / 1e6)
        later = record.usage.completion_tokens - 1
        if later > 0 and end_us > first_us:
            self._speed.labels(model).observe(later * 1e6 / (end_us - first_us))
