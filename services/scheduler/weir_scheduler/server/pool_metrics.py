"""How fast pools empty, how targets are kept, and whether a Retry-After holds."""

import math
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir_core.telemetry.busiest import Busiest
from weir_scheduler.dispatch.pool_view import PoolStatus
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.slo.objective import Objective

_POOL = ("model", "pool")
_GROUP = (*_POOL, "class", "length")
_TARGET = ("tenant", "objective")
_WINDOW = (*_TARGET, "window")


class PoolCollector(Collector):
    """Reads the scheduler when it is scraped; tenants that are not among the busiest are one."""

    def __init__(self, scheduler: Scheduler, registry: CollectorRegistry, tenants: Busiest) -> None:
        self._scheduler = scheduler
        self._tenants = tenants
        self._judged = Counter(
            "weir_scheduler_slo_requests",
            "Requests measured against a target of their tenant, by whether they kept it",
            (*_TARGET, "outcome"),
            registry=registry,
        )
        tenants.bind(self._judged)
        scheduler.on_judged(self._count)
        registry.register(self)

    def _count(self, tenant_id: str, objective: Objective, good: bool) -> None:
        outcome = "kept" if good else "missed"
        tenant = self._tenants.known(tenant_id)
        self._judged.labels(tenant, objective.value, outcome).inc()

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        return (_drain(), _wait(), _attainment(), _burn_rate(), _target(), _promises())

    def collect(self) -> Iterator[Metric]:
        """Pools, targets and promises of this moment."""
        yield from self._pools()
        yield from self._windows()
        yield self._wanted()
        promises = _promises()
        for outcome, number in zip(("kept", "broken"), self._scheduler.promises, strict=True):
            promises.add_metric((outcome,), number)
        yield promises

    def _pools(self) -> Iterator[Metric]:
        rates: dict[tuple[str, str], float] = {}
        waits: dict[tuple[str, str, str, str], float] = {}
        for status in self._scheduler.pools():
            key = status.key.model, status.rules.name
            rates[key] = rates.get(key, 0.0) + status.drain_per_s
            for group, wait_s in _waits(status):
                waits[*key, *group] = max(wait_s, waits.get((*key, *group), 0.0))
        drain, wait = _drain(), _wait()
        for pool, rate in rates.items():
            drain.add_metric(pool, rate)
        for labels, wait_s in waits.items():
            wait.add_metric(labels, wait_s)
        yield from (drain, wait)

    def _windows(self) -> Iterator[Metric]:
        counts: dict[tuple[str, str, str], tuple[int, int, float]] = {}
        for status in self._scheduler.slos():
            for window in status.windows:
                length = f"{window.length_us // 60_000_000}m"
                key = self._tenants.known(status.tenant_id), status.objective.value, length
                good, total, allowed = counts.get(key, (0, 0, 0.0))
                may_miss = allowed + window.allowed_miss * window.total
                counts[key] = good + window.good, total + window.total, may_miss
        kept, burn = _attainment(), _burn_rate()
        for key, (good, total, allowed) in counts.items():
            if total:
                kept.add_metric(key, good / total)
                burn.add_metric(key, (total - good) / allowed)
        yield from (kept, burn)

    def _wanted(self) -> Metric:
        wanted: dict[tuple[str, str], float] = {}
        for status in self._scheduler.slos():
            labels = self._tenants.known(status.tenant_id), status.objective.value
            wanted[labels] = min(status.attainment_millis / 1000, wanted.get(labels, 1.0))
        family = _target()
        for labels, part in wanted.items():
            family.add_metric(labels, part)
        return family


def _drain() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_drain_tokens_per_second",
        "Estimated cost that left the queue per second while workers were full",
        labels=_POOL,
    )


def _wait() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_predicted_wait_seconds",
        "Wait of a request that comes now, of a tenant of which nothing waits",
        labels=_GROUP,
    )


def _attainment() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_slo_attainment",
        "Part of the requests that kept a target, 0 to 1",
        labels=_WINDOW,
    )


def _burn_rate() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_slo_burn_rate",
        "Part of the requests that missed a target, over the part that may",
        labels=_WINDOW,
    )


def _target() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_slo_target_ratio",
        "Part of the requests that is to keep a target, 0 to 1; of `other` the lowest",
        labels=_TARGET,
    )


def _promises() -> CounterMetricFamily:
    return CounterMetricFamily(
        "weir_scheduler_retry_after",
        "Requests that came when a refusal had told them to, by whether they were let in",
        labels=("outcome",),
    )


def _waits(status: PoolStatus) -> Iterator[tuple[tuple[str, str], float]]:
    """Predicted waits that are known, by class and length."""
    for group in status.groups:
        if group.newcomer is not None and math.isfinite(group.newcomer.wait_s):
            length = "long" if group.group.long else "short"
            yield (group.group.request_class.value, length), group.newcomer.wait_s
