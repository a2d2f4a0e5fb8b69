"""What the gateway counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir_core.errors import LimitExceeded, WeirError
from weir_core.telemetry.metrics import (
    REQUEST_LATENCY_BUCKETS,
    TOKEN_COUNT_BUCKETS,
    TTFT_BUCKETS,
    LabelCap,
)
from weir_gateway.version_metrics import VersionMetrics

_SPEED_BUCKETS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0, 400.0, 1000.0,
)  # fmt: skip
_MAX_SERIES = 10_000
_OUTCOMES = {number: name.removeprefix("OUTCOME_").lower() for name, number in Outcome.items()}


class GatewayMetrics:
    """Counters and histograms of requests; tenants and models are bounded labels.

    `time_to_first_token`, `tokens_per_second` and `end_to_end_latency` are measured where the
    client is; those beginning with `gen_ai_` are their names by semantic convention.

    Args:
        registry: they are added to it.
        own: further ones by tenant id, which count that tenant's requests too.
    """

    def __init__(
        self, registry: CollectorRegistry, own: Mapping[str, "GatewayMetrics"] | None = None
    ) -> None:
        self._own = dict(own or {})
        self.on_refused: list[Callable[[WeirError, str], None]] = []
        """Told of each refusal, with the id of the tenant or nothing."""
        self._tenants = LabelCap()
        self._models = LabelCap()
        self._limits = LabelCap()
        self._versions = VersionMetrics(registry)
        self._series: dict[tuple[str, str], _Series] = {}
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
            "Requests refused by a limit",
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
        self.job_attempts = Counter(
            "weir_gateway_job_attempts",
            "Attempts at jobs that ended, by what came of them",
            ("outcome",),
            registry=registry,
        )
        self.jobs_running = Gauge(
            "weir_gateway_jobs_running", "Attempts at jobs that run here", registry=registry
        )
        self.webhook_attempts = Counter(
            "weir_gateway_webhook_attempts",
            "Attempts to deliver a webhook, by what came of them",
            ("outcome",),
            registry=registry,
        )
        self.unheard = Gauge(
            "weir_gateway_unheard_calls",
            "Calls to the ratelimiter that are repeated until they are heard",
            registry=registry,
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
        if tenant_id in self._own:
            self._own[tenant_id].refused(error, tenant_id)
        for told in self.on_refused:
            told(error, tenant_id)
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
        if record.subject.tenant_id in self._own:
            self._own[record.subject.tenant_id].ended(record, arrived_us)
        self._versions.ended(record, arrived_us)
        tenant, model, usage = record.subject.tenant_id, record.subject.model, record.usage
        key = (tenant, model)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._make_series(tenant, model)
        self._requests.labels(*series.labels, _OUTCOMES[record.outcome]).inc()
        series.input.inc(usage.prompt_tokens)
        series.output.inc(usage.completion_tokens)
        series.prompt.observe(record.prompt_tokens_estimated)
        series.completion.observe(usage.completion_tokens)
        end_us = record.end_time.ToMicroseconds()
        for histogram in series.latency:
            histogram.observe((end_us - arrived_us) / 1e6)
        if record.HasField("first_token_time"):
            first_us = record.first_token_time.ToMicroseconds()
            for histogram in series.first:
                histogram.observe((first_us - arrived_us) / 1e6)
            later = usage.completion_tokens - 1
            if later > 0 and end_us > first_us:
                series.speed.observe(later * 1e6 / (end_us - first_us))

    def _make_series(self, tenant_id: str, model_name: str) -> "_Series":
        tenant, model = self._tenants.label(tenant_id), self._models.label(model_name)
        if len(self._series) >= _MAX_SERIES:
            self._series.clear()
        return _Series(
            labels=(tenant, model),
            input=self._tokens.labels(tenant, model, "input"),
            output=self._tokens.labels(tenant, model, "output"),
            prompt=self._prompt.labels(model),
            completion=self._output.labels(model),
            latency=tuple(histogram.labels(model) for histogram in self._latency),
            first=tuple(histogram.labels(model) for histogram in self._first),
            speed=self._speed.labels(model),
        )


@dataclass(frozen=True, slots=True)
class _Series:
    """The series of one tenant and model: looking labels up costs more than counting."""

    labels: tuple[str, str]
    input: Counter
    output: Counter
    prompt: Histogram
    completion: Histogram
    latency: tuple[Histogram, ...]
    first: tuple[Histogram, ...]
    speed: Histogram
