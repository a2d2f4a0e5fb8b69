"""Times and lengths of requests, as their clients see them, by model."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_core.telemetry.exemplars import Exemplar
from weir_core.telemetry.metrics import (
    REQUEST_LATENCY_BUCKETS,
    TOKEN_COUNT_BUCKETS,
    TTFT_BUCKETS,
)

_SPEED_BUCKETS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0, 400.0, 1000.0,
)  # fmt: skip
# The semantic conventions give these two.
_TIME_PER_TOKEN_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
)  # fmt: skip
_USAGE_BUCKETS = tuple(float(4**power) for power in range(14))
_MODEL = "model"
_SEMANTIC_MODEL = "gen_ai_request_model"


class RequestHistograms:
    """Histograms of ended requests, in one registry.

    `time_to_first_token`, `tokens_per_second` and `end_to_end_latency` run from the arrival at
    the gateway. Those that begin with `gen_ai_` are the same under the names and labels of
    OpenTelemetry's conventions.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels or (_MODEL,), buckets=buckets, registry=registry)

        self._first = histogram(
            "time_to_first_token", "From arrival to the first token, seconds", TTFT_BUCKETS
        )
        self._latency = histogram(
            "end_to_end_latency", "From arrival to the end, seconds", REQUEST_LATENCY_BUCKETS
        )
        self._speed = histogram(
            "tokens_per_second",
            "Output tokens of a request per second after its first one",
            _SPEED_BUCKETS,
        )
        self._prompt = histogram(
            "weir_gateway_prompt_tokens", "Prompt tokens of a request", TOKEN_COUNT_BUCKETS
        )
        self._output = histogram(
            "weir_gateway_output_tokens", "Output tokens of a request", TOKEN_COUNT_BUCKETS
        )
        self._semantic_first = histogram(
            "gen_ai_server_time_to_first_token",
            "The convention's name for time_to_first_token, seconds",
            TTFT_BUCKETS,
            _SEMANTIC_MODEL,
        )
        self._semantic_latency = histogram(
            "gen_ai_server_request_duration",
            "The convention's name for end_to_end_latency, seconds",
            REQUEST_LATENCY_BUCKETS,
            _SEMANTIC_MODEL,
        )
        self._semantic_token = histogram(
            "gen_ai_server_time_per_output_token",
            "Mean time of an output token after the first of its request, seconds",
            _TIME_PER_TOKEN_BUCKETS,
            _SEMANTIC_MODEL,
        )
        self._semantic_usage = histogram(
            "gen_ai_client_token_usage",
            "Input and output tokens of a request as its client is told them",
            _USAGE_BUCKETS,
            _SEMANTIC_MODEL,
            "gen_ai_token_type",
        )

    def of(self, model: str) -> "RequestSeries":
        """The series of a model, looked up once."""
        return RequestSeries(
            first=(self._first.labels(model), self._semantic_first.labels(model)),
            latency=(self._latency.labels(model), self._semantic_latency.labels(model)),
            speed=self._speed.labels(model),
            per_token=self._semantic_token.labels(model),
            prompt=self._prompt.labels(model),
            output=self._output.labels(model),
            usage=(
                self._semantic_usage.labels(model, "input"),
                self._semantic_usage.labels(model, "output"),
            ),
        )


@dataclass(frozen=True, slots=True)
class RequestSeries:
    """Histograms of one model."""

    first: tuple[Histogram, Histogram]
    latency: tuple[Histogram, Histogram]
    speed: Histogram
    per_token: Histogram
    prompt: Histogram
    output: Histogram
    usage: tuple[Histogram, Histogram]

    def ended(self, record: LifecycleRecord, arrived_us: int, exemplar: Exemplar | None) -> None:
        """See `GatewayMetrics.ended`."""
        usage = record.usage
        self.prompt.observe(record.prompt_tokens_estimated)
        self.output.observe(usage.completion_tokens)
        self.usage[0].observe(usage.prompt_tokens)
        self.usage[1].observe(usage.completion_tokens)
        end_us = record.end_time.ToMicroseconds()
        for histogram in self.latency:
            histogram.observe((end_us - arrived_us) / 1e6, exemplar)
        if not record.HasField("first_token_time"):
            return
        first_us = record.first_token_time.ToMicroseconds()
        for histogram in self.first:
            histogram.observe((first_us - arrived_us) / 1e6, exemplar)
        later = usage.completion_tokens - 1
        if later > 0 and end_us > first_us:
            self.speed.observe(later * 1e6 / (end_us - first_us))
            self.per_token.observe((end_us - first_us) / 1e6 / later)
