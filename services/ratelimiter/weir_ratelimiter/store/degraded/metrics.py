"""What is counted while the shared store is away: the gap, published."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir_ratelimiter.store.degraded.mode import Mode
from weir_ratelimiter.store.degraded.pending_log import PendingLog
from weir_ratelimiter.store.degraded.replicas import ReplicaCount
from weir_ratelimiter.store.degraded.shared import SharedStore


class DegradedMetrics:
    """Counters, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "weir_ratelimiter_degraded_decisions",
            "Decisions made on this replica's share of the limits",
            ("operation",),
            registry=registry,
        )
        self._replayed = Counter(
            "weir_ratelimiter_replayed",
            "Reservations that the shared store was told of afterwards, by what it said",
            ("outcome",),
            registry=registry,
        )

    def decided(self, operation: str) -> None:
        """One decision was made locally."""
        self._decisions.labels(operation).inc()

    def replayed(self, outcome: str) -> None:
        """The shared store was told of one reservation."""
        self._replayed.labels(outcome).inc()


class GapCollector(Collector):
    """Reads the gap when scraped."""

    def __init__(
        self,
        shared: SharedStore,
        mode: Mode,
        pending: PendingLog,
        count: ReplicaCount,
        now_ms: Callable[[], int],
        registry: CollectorRegistry,
    ) -> None:
        self._shared = shared
        self._mode = mode
        self._pending = pending
        self._count = count
        self._now_ms = now_ms
        registry.register(self)

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        return _families(_Gap())

    def collect(self) -> Iterator[Metric]:
        """The gap of now."""
        return _families(
            _Gap(
                degraded=self._mode.degraded,
                degraded_s=self._mode.degraded_s(self._now_ms()),
                states_lost=self._shared.states_lost,
                pending=len(self._pending),
                replicas=self._count.value,
            )
        )


class _Gap(NamedTuple):
    degraded: bool = False
    degraded_s: float = 0.0
    states_lost: int = 0
    pending: int = 0
    replicas: int = 0


def _families(gap: _Gap) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "weir_ratelimiter_mode",
        "0: limits are enforced exactly; 1: on this replica's share, the store being away",
        value=int(gap.degraded),
    )
    yield CounterMetricFamily(
        "weir_ratelimiter_degraded_seconds",
        "Seconds in which the shared store was away",
        value=gap.degraded_s,
    )
    yield CounterMetricFamily(
        "weir_ratelimiter_store_states_lost",
        "How often the shared store came back without its state",
        value=gap.states_lost,
    )
    yield GaugeMetricFamily(
        "weir_ratelimiter_pending_replays",
        "Reservations that the shared store has still to be told of",
        value=gap.pending,
    )
    yield GaugeMetricFamily(
        "weir_ratelimiter_replicas",
        "Ratelimiters that share the limits, as last counted",
        value=gap.replicas,
    )
