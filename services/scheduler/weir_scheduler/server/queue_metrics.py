"""What the queue counts."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.telemetry.metrics import TTFT_BUCKETS, LabelCap
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.workers.worker import WorkerState


class QueueMetrics:
    """Counts waits as they end; an `Observer`."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._tenants = LabelCap()
        self._time = Histogram(
            "weir_scheduler_queue_time_seconds",
            "Length of a wait, by how it ended",
            ("exit",),
            buckets=TTFT_BUCKETS,
            registry=registry,
        )
        self._rejections = Counter(
            "weir_scheduler_rejections",
            "Requests refused on arrival or after a wait",
            ("tenant", "reason"),
            registry=registry,
        )
        self._requeues = Counter(
            "weir_scheduler_requeues", "Attempts that failed and were queued again", ("reason",),
            registry=registry,
        )  # fmt: skip
        self._service = Counter(
            "weir_scheduler_service_tokens",
            "Weighted tokens that the fair queue has charged for attempts that ended",
            ("tenant",),
            registry=registry,
        )
        self._dispatches = Counter(
            "weir_scheduler_dispatches",
            "Attempts given to a worker",
            ("model", "class"),
            registry=registry,
        )

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """See `Observer.refused`."""
        tenant = self._tenants.label(request.subject.tenant_id)
        self._rejections.labels(tenant, cause.reason.value).inc()

    def entered(self, record: RequestRecord) -> None:
        """See `Observer.entered`."""

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """See `Observer.waits`."""

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """See `Observer.left`."""
        entry = record.entry
        waited_us = self._clock.monotonic_us() - entry.enqueued_us
        if exit_ is QueueExit.DISPATCHED:
            self._dispatches.labels(entry.model, entry.request_class.value).inc()
        self._time.labels(exit_.value).observe(max(0, waited_us) / 1e6)
        if cause is not None:
            tenant = self._tenants.label(entry.tenant_id)
            self._rejections.labels(tenant, cause.reason.value).inc()

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """See `Observer.requeued`."""
        self._requeues.labels(cause.reason.value).inc()

    def served(self, attempt: Attempt) -> None:
        """See `Observer.served`."""
        if attempt.charged:
            tenant = self._tenants.label(attempt.tenant_id)
            self._service.labels(tenant).inc(attempt.charged)


class SchedulerCollector(Collector):
    """Reads the gauges from the scheduler when they are scraped."""

    def __init__(self, scheduler: Scheduler, clock: Clock, registry: CollectorRegistry) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._tenants = LabelCap()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Queue depth, workers and attempts of this moment."""
        yield self._depth()
        yield self._workers()
        yield self._preemptions()
        attempts = GaugeMetricFamily(
            "weir_scheduler_attempts", "Attempts that take up a place on a worker"
        )
        attempts.add_metric([], self._scheduler.attempts)
        yield attempts

    def _depth(self) -> GaugeMetricFamily:
        depth: dict[tuple[str, str], int] = {}
        for tenant_id, reason, count in self._scheduler.queue_depth():
            key = (self._tenants.label(tenant_id), reason.value)
            depth[key] = depth.get(key, 0) + count
        family = GaugeMetricFamily(
            "weir_scheduler_queue_depth", "Waiting requests", labels=("tenant", "reason")
        )
        for key, count in depth.items():
            family.add_metric(key, count)
        return family

    def _preemptions(self) -> CounterMetricFamily:
        """By policy; those for want of memory are counted by the workers."""
        counts = self._scheduler.preemptions
        family = CounterMetricFamily(
            "weir_scheduler_policy_preemptions",
            "Places that urgent requests asked for, were given, and took by overtaking",
            labels=("outcome",),
        )
        for outcome in ("asked", "given", "overtakings"):
            family.add_metric([outcome], getattr(counts, outcome))
        return family

    def _workers(self) -> GaugeMetricFamily:
        now_us = self._clock.monotonic_us()
        counts = dict.fromkeys(WorkerState, 0)
        for worker in self._scheduler.workers():
            counts[worker.state(now_us)] += 1
        family = GaugeMetricFamily("weir_scheduler_workers", "Workers by state", labels=("state",))
        for state, count in counts.items():
            family.add_metric([state.value], count)
        return family
