"""Gauges of the memory store, read when scraped."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir_ratelimiter.store.memory import MemoryStore

_GAUGES = {
    "open_reservations": "Reservations that hold something",
    "held_leases": "Concurrency leases out, over all limits",
    "held_tokens": "Tokens held by open reservations, each once",
    "debt_units": "Units owed to buckets, over all limits",
    "outbox_events": "Ledger events not acknowledged",
    "journal_bytes": "Size of the journal",
}


class StoreCollector(Collector):
    """Reads a store's statistics."""

    def __init__(self, store: MemoryStore, registry: CollectorRegistry) -> None:
        self._store = store
        registry.register(self)

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; no store is read."""
        return _families(dict.fromkeys(_GAUGES, 0))

    def collect(self) -> Iterator[Metric]:
        """The statistics of now."""
        return _families(self._store.stats())


def _families(stats: Mapping[str, float]) -> Iterator[Metric]:
    for name, text in _GAUGES.items():
        yield GaugeMetricFamily(f"weir_ratelimiter_{name}", text, value=stats[name])
