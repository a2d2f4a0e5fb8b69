"""Prometheus metrics of a worker. No label names a tenant or a request."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.clock import Clock
from weir_core.telemetry.metrics import TOKEN_COUNT_BUCKETS, TOKEN_LATENCY_BUCKETS
from weir_worker.engine.client import EngineClient
from weir_worker.engine.events import StepOutput, Terminal
from weir_worker.engine.load import Counters
from weir_worker.hit_rate import HitRate
from weir_worker.running_attempt import RunningAttempt
from weir_worker.terminal_record import reason_of

_PREFILL_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000,
)  # fmt: skip
_DECODE_MS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1_000, 5_000,
)  # fmt: skip

# Engine counters: name, text, attribute of `Counters`.
_COUNTERS = (
    (
        "kv_cache_evictions",
        "Findable KV blocks that were given up, for reuse or by age",
        "evictions",
    ),
    ("kv_cache_prefix_queries", "Tokens looked up in the tenants' prefixes", "prefix_queries"),
    ("kv_cache_prefix_hits", "Of these, tokens found", "prefix_hits"),
    ("kv_cache_session_queries", "Tokens looked up in sessions", "session_queries"),
    ("kv_cache_session_hits", "Of these, tokens found", "session_hits"),
    ("weir_worker_steps", "Steps of the engine", "steps"),
    ("weir_worker_failed_steps", "Steps whose forward pass failed", "failed_steps"),
    ("weir_worker_preemptions", "Sequences whose KV was taken", "preemptions"),
    ("weir_worker_prefill_rows", "Prompt rows computed, recomputed ones too", "prefill_tokens"),
    ("weir_worker_decode_rows", "Decode rows computed", "decode_tokens"),
    ("weir_worker_recomputed_tokens", "Rows computed again after pre-emption", "recomputed_tokens"),
    ("weir_worker_generation_tokens", "Tokens sampled", "generated_tokens"),
)


class WorkerMetrics(Collector):
    """Gauges read from the engine when scraped; counters and histograms from the attempts.

    Args:
        registry: of the process.
        engine: its latest frame is what the gauges say; an idle engine sends two a second.
        clock: for the window of the hit rates.
    """

    def __init__(self, registry: CollectorRegistry, engine: EngineClient, clock: Clock) -> None:
        self._engine = engine
        self._prefix_rate = HitRate(clock)
        self._session_rate = HitRate(clock)
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
            "weir_worker_attempts_finished", "Ended attempts", ["reason"], registry=registry
        )
        self._refused = Counter(
            "weir_worker_starts_refused",
            "Starts of which nothing ran",
            ["reason"],
            registry=registry,
        )
        self._registry = registry
        registry.register(self)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Adds a gauge that is read when scraped."""
        Gauge(name, text, registry=self._registry).set_function(read)

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

    def collect(self) -> Iterator[Metric]:
        """What the engine said last."""
        load = self._engine.load
        yield from self._gauges()
        yield from self._hit_rates(load.counters)
        for name, text, attribute in _COUNTERS:
            yield CounterMetricFamily(name, text, getattr(load.counters, attribute))
        seconds = CounterMetricFamily(
            "weir_worker_step_seconds_by_phase", "Step time, shared out by rows", labels=["phase"]
        )
        seconds.add_metric(["prefill"], load.counters.prefill_us / 1e6)
        seconds.add_metric(["decode"], load.counters.decode_us / 1e6)
        yield seconds

    def _gauges(self) -> Iterator[Metric]:
        load, health = self._engine.load, self._engine.health
        yield GaugeMetricFamily(
            "kv_cache_bytes_used",
            "KV memory that requests and sessions hold, bytes",
            self._bytes_used(),
        )
        yield _by_label(
            "weir_worker_kv_blocks",
            "KV blocks: free, cached (findable, unreferenced) or held",
            "state",
            {"free": load.free_blocks, "cached": load.cached_blocks, "held": load.held_blocks},
        )
        yield GaugeMetricFamily(
            "weir_worker_kv_pinned_blocks",
            "Held KV blocks that sessions alone keep; they yield to requests",
            load.pinned_blocks,
        )
        yield _by_label(
            "weir_worker_requests",
            "Attempts in the engine; pre-empted ones wait",
            "state",
            {"running": load.running, "waiting": load.waiting},
        )
        yield GaugeMetricFamily(
            "weir_worker_kv_stranded_tokens",
            "Places in held blocks that no token fills",
            load.stranded_tokens,
        )
        yield GaugeMetricFamily(
            "weir_worker_pending_prefill_tokens",
            "Prompt tokens still to be computed",
            load.pending_prefill_tokens,
        )
        yield GaugeMetricFamily("weir_worker_engine_up", "1 while it lives", int(health.alive))
        yield GaugeMetricFamily(
            "weir_worker_engine_age_seconds", "Time since the engine's last frame", health.age_s
        )

    def _bytes_used(self) -> int:
        ready = self._engine.ready
        return self._engine.load.held_blocks * ready.block_size * ready.kv_bytes_per_token

    def _hit_rates(self, counters: Counters) -> Iterator[Metric]:
        text = "Tokens found by tokens looked up in the last 5 minutes, 0 to 1: "
        yield GaugeMetricFamily(
            "kv_cache_hit_rate_prefix",
            text + "prefixes of tenants",
            self._prefix_rate.read(counters.prefix_queries, counters.prefix_hits),
        )
        yield GaugeMetricFamily(
            "kv_cache_hit_rate_session",
            text + "sessions",
            self._session_rate.read(counters.session_queries, counters.session_hits),
        )


def _by_label(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return family
