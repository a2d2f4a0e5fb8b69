"""How fast pools empty, how targets are kept, and whether a Retry-After holds."""

import math
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir_core.telemetry.metrics import LabelCap
from weir_scheduler.dispatch.pool_view import PoolStatus
from weir_scheduler.scheduler import Scheduler

_POOL = ("model", "pool")
_GROUP = (*_POOL, "class", "length")
_TARGET = ("tenant", "objective", "window")


class PoolCollector(Collector):
    """Reads the scheduler when it is scraped; tenants beyond the label cap are one."""

    def __init__(self, scheduler: Scheduler, registry: CollectorRegistry) -> None:
        self._scheduler = scheduler
        self._tenants = LabelCap()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Pools, targets and promises of this moment."""
        yield from self._pools()
        yield from self._targets()
        kept, broken = self._scheduler.promises
        promises = CounterMetricFamily(
            "weir_scheduler_retry_after",
            "Requests that came when a refusal had told them to, by whether they were let in",
            labels=("outcome",),
        )
        promises.add_metric(("kept",), kept)
        promises.add_metric(("broken",), broken)
        yield promises

    def _pools(self) -> Iterator[GaugeMetricFamily]:
        drain = GaugeMetricFamily(
            "weir_scheduler_drain_tokens_per_second",
            "Estimated cost that left the queue per second while workers were full",
            labels=_POOL,
        )
        wait = GaugeMetricFamily(
            "weir_scheduler_predicted_wait_seconds",
            "Wait of a request that comes now, of a tenant of which nothing waits",
            labels=_GROUP,
        )
        merged: dict[tuple[str, ...], float] = {}
        waits: dict[tuple[str, ...], float] = {}
        for status in self._scheduler.pools():
            key = status.key.model, status.rules.name
            merged[key] = merged.get(key, 0.0) + status.drain_per_s
            for group, wait_s in _waits(status):
                waits[*key, *group] = max(wait_s, waits.get((*key, *group), 0.0))
        for key_, rate in merged.items():
            drain.add_metric(key_, rate)
        for labels, wait_s in waits.items():
            wait.add_metric(labels, wait_s)
        yield drain
        yield wait

    def _targets(self) -> Iterator[GaugeMetricFamily]:
        kept = GaugeMetricFamily(
            "weir_scheduler_slo_attainment", "Part of the requests that kept a target",
            labels=_TARGET,
        )  # fmt: skip
        burn = GaugeMetricFamily(
            "weir_scheduler_slo_burn_rate",
            "Part of the requests that missed a target, over the part that may",
            labels=_TARGET,
        )
        counts: dict[tuple[str, str, str], tuple[int, int, float]] = {}
        for status in self._scheduler.slos():
            for window in status.windows:
                length = f"{window.length_us // 60_000_000}m"
                key = self._tenants.label(status.tenant_id), status.objective.value, length
                good, total, allowed = counts.get(key, (0, 0, 0.0))
                may_miss = allowed + window.allowed_miss * window.total
                counts[key] = good + window.good, total + window.total, may_miss
        for key, (good, total, allowed) in counts.items():
            if total:
                kept.add_metric(key, good / total)
                burn.add_metric(key, (total - good) / allowed)
        yield kept
        yield burn


def _waits(status: PoolStatus) -> Iterator[tuple[tuple[str, str], float]]:
    """Predicted waits that are known, by class and length."""
    for group in status.groups:
        if group.newcomer is not None and math.isfinite(group.newcomer.wait_s):
            length = "long" if group.group.long else "short"
            yield (group.group.request_class.value, length), group.newcomer.wait_s
