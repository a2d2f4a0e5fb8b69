"""Prometheus metrics of the engine: KV cache, load, steps. No label names a tenant."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir_core.clock import Clock
from weir_worker.engine.client import EngineClient, EngineHealth
from weir_worker.engine.load import Counters, Load
from weir_worker.hit_rate import HitRate

# Name, text, attribute of `Counters`.
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
    (
        "weir_worker_session_restored_tokens",
        "Tokens of sessions that came back from the memory of the host",
        "restored",
    ),
    ("weir_worker_steps", "Steps of the engine", "steps"),
    ("weir_worker_failed_steps", "Steps whose forward pass failed", "failed_steps"),
    ("weir_worker_preemptions", "Sequences whose KV was taken", "preemptions"),
    ("weir_worker_prefill_rows", "Prompt rows computed, recomputed ones too", "prefill_tokens"),
    ("weir_worker_decode_rows", "Decode rows computed", "decode_tokens"),
    ("weir_worker_recomputed_tokens", "Rows computed again after pre-emption", "recomputed_tokens"),
    ("weir_worker_generation_tokens", "Tokens sampled", "generated_tokens"),
)


class EngineCollector(Collector):
    """Read when scraped.

    Args:
        registry: of the process.
        engine: its latest frame is what is told; an idle engine sends two a second.
        clock: for the window of the hit rates.
    """

    def __init__(self, registry: CollectorRegistry, engine: EngineClient, clock: Clock) -> None:
        self._engine = engine
        self._prefix_rate = HitRate(clock)
        self._session_rate = HitRate(clock)
        registry.register(self)

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        nothing = Load()
        yield from _gauges(nothing, EngineHealth(False, 0.0, 0), 0)
        yield from _hit_rates(0.0, 0.0)
        yield from _counters(nothing.counters)

    def collect(self) -> Iterator[Metric]:
        """What the engine said last."""
        load, ready = self._engine.load, self._engine.ready
        counters = load.counters
        bytes_used = load.held_blocks * ready.block_size * ready.kv_bytes_per_token
        yield from _gauges(load, self._engine.health, bytes_used)
        yield from _hit_rates(
            self._prefix_rate.read(counters.prefix_queries, counters.prefix_hits),
            self._session_rate.read(counters.session_queries, counters.session_hits),
        )
        yield from _counters(counters)


def _gauges(load: Load, health: EngineHealth, bytes_used: int) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "kv_cache_bytes_used", "KV memory that requests and sessions hold, bytes", bytes_used
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
    yield GaugeMetricFamily(
        "weir_worker_kv_host_blocks",
        "Blocks of sessions that left a GPU's KV cache for the memory of the host",
        load.host_blocks,
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
    yield GaugeMetricFamily(
        "weir_worker_engine_up", "1 while the engine process lives", int(health.alive)
    )
    yield GaugeMetricFamily(
        "weir_worker_engine_age_seconds", "Time since the engine's last frame", health.age_s
    )


def _hit_rates(prefix: float, session: float) -> Iterator[Metric]:
    text = "Tokens found by tokens looked up in the last 5 minutes, 0 to 1: "
    yield GaugeMetricFamily("kv_cache_hit_rate_prefix", text + "prefixes of tenants", prefix)
    yield GaugeMetricFamily("kv_cache_hit_rate_session", text + "sessions", session)


def _counters(counters: Counters) -> Iterator[Metric]:
    for name, text, attribute in _COUNTERS:
        yield CounterMetricFamily(name, text, getattr(counters, attribute))
    seconds = CounterMetricFamily(
        "weir_worker_step_seconds_by_phase", "Step time, shared out by rows", labels=["phase"]
    )
    seconds.add_metric(["prefill"], counters.prefill_us / 1e6)
    seconds.add_metric(["decode"], counters.decode_us / 1e6)
    yield seconds


def _by_label(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return family
