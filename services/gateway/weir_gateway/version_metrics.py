"""What each version of a model does, to compare a canary with the rest."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir_core.telemetry.metrics import REQUEST_LATENCY_BUCKETS, TTFT_BUCKETS, LabelCap

_LABELS = ("model", "version")
_MAX_SERIES = 10_000
_OUTCOMES = {number: name.removeprefix("OUTCOME_").lower() for name, number in Outcome.items()}


class VersionMetrics:
    """Requests, tokens and times by the version that served."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models = LabelCap()
        self._versions = LabelCap()
        self._series: dict[tuple[str, str], _Series] = {}
        self._requests = Counter(
            "weir_gateway_version_requests",
            "Accepted requests that ended, by the version that served them",
            (*_LABELS, "outcome"),
            registry=registry,
        )
        self._tokens = Counter(
            "weir_gateway_version_output_tokens",
            "Output tokens, by the version that made them",
            _LABELS,
            registry=registry,
        )
        self._first = Histogram(
            "weir_gateway_version_time_to_first_token_seconds",
            "From arrival to the first token, by version",
            _LABELS,
            buckets=TTFT_BUCKETS,
            registry=registry,
        )
        self._latency = Histogram(
            "weir_gateway_version_latency_seconds",
            "From arrival to the end, by version",
            _LABELS,
            buckets=REQUEST_LATENCY_BUCKETS,
            registry=registry,
        )

    def ended(self, record: LifecycleRecord, arrived_us: int) -> None:
        """An accepted request has ended."""
        subject = record.subject
        series = self._of(subject.model, subject.model_version)
        self._requests.labels(*series.labels, _OUTCOMES[record.outcome]).inc()
        series.tokens.inc(record.usage.completion_tokens)
        end_us = record.end_time.ToMicroseconds()
        series.latency.observe((end_us - arrived_us) / 1e6)
        if record.HasField("first_token_time"):
            first_us = record.first_token_time.ToMicroseconds()
            series.first.observe((first_us - arrived_us) / 1e6)

    def _of(self, model: str, version: str) -> "_Series":
        series = self._series.get((model, version))
        if series is None:
            if len(self._series) >= _MAX_SERIES:
                self._series.clear()
            labels = self._models.label(model), self._versions.label(version)
            series = self._series[model, version] = _Series(
                labels=labels,
                tokens=self._tokens.labels(*labels),
                first=self._first.labels(*labels),
                latency=self._latency.labels(*labels),
            )
        return series


@dataclass(frozen=True, slots=True)
class _Series:
    """The series of one version: looking labels up costs more than counting."""

    labels: tuple[str, str]
    tokens: Counter
    first: Histogram
    latency: Histogram
