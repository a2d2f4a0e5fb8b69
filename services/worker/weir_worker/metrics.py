"""Prometheus metrics of a worker. No label names a tenant or a request."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.telemetry.metrics import TOKEN_COUNT_BUCKETS, TOKEN_LATENCY_BUCKETS
from weir_worker.engine.events import StepOutput, Terminal
from weir_worker.running_attempt import RunningAttempt
from weir_worker.terminal_record import reason_of

_PREFILL_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000,
)  # fmt: skip
_DECODE_MS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1_000, 5_000,
)  # fmt: skip


class WorkerMetrics:
    """Counters and histograms of attempts and steps; the rest is `EngineCollector`'s."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = 0
        self._prefill_ms = Histogram(
            "prefill_latency_ms",
            "From the first prompt token scheduled to the first token sampled, milliseconds",
            buckets=_PREFILL_MS,
            registry=registry,
        )
        self._decode_ms = Histogram(
            "decode_latency_per_token_ms",
            "Mean time of a token after the first, of each attempt, milliseconds",
            buckets=_DECODE_MS,
            registry=registry,
        )
        self._step_seconds = Histogram(
            "weir_worker_step_seconds",
            "Duration of the engine's steps",
            buckets=TOKEN_LATENCY_BUCKETS,
            registry=registry,
        )
        self._prompt = Histogram(
            "weir_worker_request_prompt_tokens",
            "Prompt tokens of ended attempts",
            buckets=TOKEN_COUNT_BUCKETS,
            registry=registry,
        )
        self._prompt_tokens = Counter(
            "weir_worker_prompt_tokens",
            "Prompt tokens of ended attempts, computed or read from the cache",
            ["source"],
            registry=registry,
        )
        self._finished = Counter(
            "weir_worker_attempts_finished",
            "Ended attempts, by why they ended",
            ["reason"],
            registry=registry,
        )
        self._refused = Counter(
            "weir_worker_starts_refused",
            "Starts of which nothing ran",
            ["reason"],
            registry=registry,
        )

    def on_step(self, output: StepOutput) -> None:
        """Measures a step; heartbeats are none."""
        steps = output.load.counters.steps
        if steps > self._steps:
            self._step_seconds.observe(output.load.step_us / 1e6)
        self._steps = steps

    def attempt_started(self, attempt: RunningAttempt) -> None:
        """See `AttemptObserver`."""

    def attempt_ended(
        self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord
    ) -> None:
        """See `AttemptObserver`."""
        usage = terminal.usage
        self._finished.labels(terminal.finish_reason.value).inc()
        self._prompt.observe(attempt.prompt_tokens)
        self._prompt_tokens.labels("computed").inc(usage.computed_prompt_tokens)
        self._prompt_tokens.labels("cached").inc(usage.cached_prompt_tokens)
        if terminal.prefill_end_us and terminal.prefill_start_us:
            self._prefill_ms.observe((terminal.prefill_end_us - terminal.prefill_start_us) / 1e3)
        if terminal.first_token_us and usage.completion_tokens > 1:
            passed_us = max(0, terminal.end_us - terminal.first_token_us)
            self._decode_ms.observe(passed_us / 1e3 / (usage.completion_tokens - 1))

    def attempt_refused(
        self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool
    ) -> None:
        """See `AttemptObserver`."""
        self._refused.labels(reason_of(record).lower()).inc()


def streams_gauge(registry: CollectorRegistry, read: Callable[[], float]) -> None:
    """Adds how many gateways are connected."""
    Gauge("weir_worker_gateway_streams", "Open Execute streams", registry=registry).set_function(
        read
    )


def registered_gauge(registry: CollectorRegistry, read: Callable[[], float]) -> None:
    """Adds whether the scheduler knows this worker."""
    Gauge(
        "weir_worker_registered", "1 while the scheduler knows it", registry=registry
    ).set_function(read)
