"""Gauges of the scaling signals."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir_scheduler.scaling.advisor import Advice

_LABELS = ("model", "pool")
Value = Callable[[Advice], float | None]

_GAUGES: dict[str, tuple[str, Value]] = {
    "wanted_workers": ("Recommended number of workers", lambda one: one.recommendation.workers),
    "needed_workers": (
        "Workers that the load asks for, before hysteresis and bounds",
        lambda one: one.recommendation.needed,
    ),
    "known": ("1 while the signals can be relied on", lambda one: one.signals.known),
    "workers": ("Workers that take work, or will soon", lambda one: one.signals.workers),
    "draining_workers": ("Workers that take nothing new", lambda one: one.signals.draining),
    "queued_requests": ("Requests that wait for a place", lambda one: one.signals.queued),
    "capped_requests": (
        "Requests that wait for their tenant's max_running_requests",
        lambda one: one.signals.capped,
    ),
    "queue_time_p95_seconds": (
        "95th percentile of interactive waits that ended lately",
        lambda one: one.signals.queue_p95_us / 1e6,
    ),
    "oldest_wait_seconds": (
        "Longest wait of the interactive requests that wait",
        lambda one: one.signals.oldest_wait_us / 1e6,
    ),
    "predicted_wait_seconds": (
        "Wait of a request that arrives now; absent while nothing moves",
        lambda one: _seconds(one.signals.predicted_wait_us),
    ),
    "running_requests": ("Answers that are made at once", lambda one: one.signals.running),
    "request_slots": ("Answers that may be made at once", lambda one: one.signals.slots),
    "tokens_in_flight": (
        "Estimated cost of what is dispatched",
        lambda one: one.signals.tokens_in_flight,
    ),
    "kv_use_ratio": (
        "Part of the KV blocks that requests hold, 0 to 1",
        lambda one: one.signals.kv_use,
    ),
}


class ScalingCollector(Collector):
    """Reads the last judgement when it is scraped.

    Args:
        last: the last answer for every pool.
        registry: of the process.
    """

    def __init__(self, last: Callable[[], Sequence[Advice]], registry: CollectorRegistry) -> None:
        self._last = last
        registry.register(self)

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        return _families(())

    def collect(self) -> Iterator[Metric]:
        """A gauge for each signal, by model and pool."""
        return _families(self._last())


def _families(advice: Sequence[Advice]) -> Iterator[Metric]:
    for name, (text, value) in _GAUGES.items():
        family = GaugeMetricFamily(f"weir_scheduler_scaling_{name}", text, labels=_LABELS)
        for one in advice:
            number = value(one)
            if number is not None:
                family.add_metric(list(one.key), number)
        yield family


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6
