"""What each version of a model does, to compare a canary with the rest."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir_core.telemetry.metrics import REQUEST_LATENCY_BUCKETS, TTFT_BUCKETS, LabelCap

_LABELS = ("model", "version")
_OUTCOMES = {number: name.removeprefix("OUTCOME_").lower() for name, number in Outcome.items()}


class VersionMetrics:
    """Requests, tokens and times by the version that served."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models = LabelCap()
        self._versions = LabelCap()
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
        labels = self._models.label(subject.model), self._versions.label(subject.model_version)
        self._requests.labels(*labels, _OUTCOMES[record.outcome]).inc()
        self._tokens.labels(*labels).inc(record.usage.completion_tokens)
        end_us = record.end_time.ToMicroseconds()
        self._latency.labels(*labels).observe((end_us - arrived_us) / 1e6)
        if record.HasField("first_token_time"):
            first_us = record.first_token_time.ToMicroseconds()
            self._first.labels(*labels).observe((first_us - arrived_us) / 1e6)
