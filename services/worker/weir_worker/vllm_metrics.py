"""The worker's metrics once more, under the names that vLLM uses.

For dashboards, autoscalers and gateways that know vLLM's. What is measured otherwise there is
left out: there is no `vllm:inter_token_latency_seconds`, as single gaps are not kept.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.telemetry.metrics import (
    REQUEST_LATENCY_BUCKETS,
    TOKEN_COUNT_BUCKETS,
    TOKEN_LATENCY_BUCKETS,
    TTFT_BUCKETS,
)
from weir_worker.engine.client import EngineClient
from weir_worker.engine.events import Terminal
from weir_worker.engine.load import Load
from weir_worker.running_attempt import RunningAttempt

_LABELS = ("model_name", "engine")
_ENGINE = "0"
_FINISHED = ("stop", "length", "abort", "error")

# Histograms of ended attempts: name, text, buckets.
_HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("Time to first token", TTFT_BUCKETS),
    "request_time_per_output_token_seconds": (
        "Mean time of a token after the first, of each request",
        TOKEN_LATENCY_BUCKETS,
    ),
    "e2e_request_latency_seconds": ("From arrival to end", REQUEST_LATENCY_BUCKETS),
    "request_queue_time_seconds": ("Waiting in this worker", REQUEST_LATENCY_BUCKETS),
    "request_prefill_time_seconds": ("In prefill", REQUEST_LATENCY_BUCKETS),
    "request_decode_time_seconds": ("In decode", REQUEST_LATENCY_BUCKETS),
    "request_inference_time_seconds": ("In prefill and decode", REQUEST_LATENCY_BUCKETS),
    "request_prompt_tokens": ("Prompt tokens of ended requests", TOKEN_COUNT_BUCKETS),
    "request_generation_tokens": ("Output tokens of ended requests", TOKEN_COUNT_BUCKETS),
}


class VllmMetrics(Collector):
    """Gauges and counters read from the engine when scraped; the rest from the attempts.

    Args:
        registry: of the process.
        engine: its latest frame is what the gauges say.
        model: value of the label `model_name`.
    """

    def __init__(self, registry: CollectorRegistry, engine: EngineClient, model: str) -> None:
        self._engine = engine
        self._model = model
        self._histograms = {
            name: Histogram(
                f"vllm:{name}", text, _LABELS, buckets=buckets, registry=registry
            ).labels(model, _ENGINE)
            for name, (text, buckets) in _HISTOGRAMS.items()
        }
        self._prompt = _counter(registry, "prompt_tokens", "Prompt tokens of ended requests")
        self._cached = _counter(registry, "prompt_tokens_cached", "Of these, from the cache")
        self._success = Counter(
            "vllm:request_success",
            "Ended requests",
            (*_LABELS, "finished_reason"),
            registry=registry,
        )
        for reason in _FINISHED:
            self._success.labels(model, _ENGINE, reason)
        registry.register(self)

    def attempt_started(self, attempt: RunningAttempt) -> None:
        """See `AttemptObserver`."""

    def attempt_ended(
        self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord
    ) -> None:
        """See `AttemptObserver`."""
        usage = terminal.usage
        reason = terminal.finish_reason.value
        self._success.labels(self._model, _ENGINE, reason if reason in _FINISHED else "error").inc()
        self._prompt.labels(self._model, _ENGINE).inc(usage.prompt_tokens)
        self._cached.labels(self._model, _ENGINE).inc(usage.cached_prompt_tokens)
        self._histograms["request_prompt_tokens"].observe(attempt.prompt_tokens)
        self._histograms["request_generation_tokens"].observe(usage.completion_tokens)
        for name, seconds in _durations(attempt, terminal).items():
            self._histograms[name].observe(seconds)

    def attempt_refused(
        self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool
    ) -> None:
        """See `AttemptObserver`."""

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        return _families(Load(), "")

    def collect(self) -> Iterator[Metric]:
        """What the engine said last."""
        return _families(self._engine.load, self._model)


def _families(load: Load, model: str) -> Iterator[Metric]:
    counters = load.counters
    for name, text, value in (
        ("num_requests_running", "Requests in the engine's steps", load.running),
        ("num_requests_waiting", "Requests that wait for it", load.waiting),
        ("kv_cache_usage_perc", "KV blocks held, 0 to 1", _used(load)),
    ):
        gauge = GaugeMetricFamily(f"vllm:{name}", text, labels=_LABELS)
        gauge.add_metric([model, _ENGINE], value)
        yield gauge
    for name, text, value in (
        (
            "prefix_cache_queries",
            "Tokens looked up in the KV cache",
            counters.prefix_queries + counters.session_queries,
        ),
        (
            "prefix_cache_hits",
            "Of the tokens looked up, those found",
            counters.prefix_hits + counters.session_hits,
        ),
        ("num_preemptions", "Requests whose KV was taken", counters.preemptions),
        ("generation_tokens", "Tokens sampled", counters.generated_tokens),
    ):
        counter = CounterMetricFamily(f"vllm:{name}", text, labels=_LABELS)
        counter.add_metric([model, _ENGINE], value)
        yield counter


def _counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(f"vllm:{name}", text, _LABELS, registry=registry)


def _used(load: Load) -> float:
    return load.held_blocks / load.total_blocks if load.total_blocks else 0.0


def _durations(attempt: RunningAttempt, terminal: Terminal) -> dict[str, float]:
    """Seconds, of the phases that were reached."""
    moments = {
        "time_to_first_token_seconds": (attempt.received_us, terminal.first_token_us),
        "e2e_request_latency_seconds": (attempt.received_us, terminal.end_us),
        "request_queue_time_seconds": (attempt.received_us, terminal.prefill_start_us),
        "request_prefill_time_seconds": (terminal.prefill_start_us, terminal.first_token_us),
        "request_decode_time_seconds": (terminal.first_token_us, terminal.end_us),
        "request_inference_time_seconds": (terminal.prefill_start_us, terminal.end_us),
    }
    found = {
        name: max(0, end_us - start_us) / 1e6
        for name, (start_us, end_us) in moments.items()
        if start_us and end_us
    }
    more = terminal.usage.completion_tokens - 1
    if "request_decode_time_seconds" in found and more > 0:
        each = found["request_decode_time_seconds"] / more
        found["request_time_per_output_token_seconds"] = each
    return found
