"""What the queue counts."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.busiest import Busiest
from weir_core.telemetry.exemplars import exemplar_of_parent
from weir_core.telemetry.metrics import TTFT_BUCKETS, LabelCap
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.workers.worker import WorkerState


class QueueMetrics:
    """Counts waits as they end; an `Observer`.

    Args:
        registry: of the process.
        clock: time.
        tenants: of the process; the tokens charged are the use by which they get names.
    """

    def __init__(self, registry: CollectorRegistry, clock: Clock, tenants: Busiest) -> None:
        self._clock = clock
        self._tenants = tenants
        self._models = LabelCap()
        self._time = Histogram(
            "weir_scheduler_queue_time_seconds",
            "Length of a wait, by how it ended",
            ("model", "exit"),
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
        # There from the start, at 0: an increase from nothing is none.
        self._requeues.labels(Reason.WORKER_LOST.value)
        tenants.bind(self._rejections, self._service)

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
        model = self._models.label(entry.model)
        if exit_ is QueueExit.DISPATCHED:
            self._dispatches.labels(model, entry.request_class.value).inc()
        exemplar = exemplar_of_parent(record.trace.traceparent)
        self._time.labels(model, exit_.value).observe(max(0, waited_us) / 1e6, exemplar)
        if cause is not None:
            tenant = self._tenants.label(entry.tenant_id)
            self._rejections.labels(tenant, cause.reason.value).inc()

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """See `Observer.requeued`."""
        self._requeues.labels(cause.reason.value).inc()

    def served(self, attempt: Attempt) -> None:
        """See `Observer.served`."""
        if attempt.charged:
            tenant = self._tenants.label(attempt.tenant_id, attempt.charged)
            self._service.labels(tenant).inc(attempt.charged)


class SchedulerCollector(Collector):
    """Reads the gauges from the scheduler when they are scraped."""

    def __init__(
        self, scheduler: Scheduler, clock: Clock, registry: CollectorRegistry, tenants: Busiest
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._tenants = tenants
        registry.register(self)

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        return (_depth(), _workers(), _preemptions(), _attempts())

    def collect(self) -> Iterator[Metric]:
        """Queue depth, workers and attempts of this moment."""
        depth = _depth()
        for labels, count in self._waiting().items():
            depth.add_metric(labels, count)
        workers = _workers()
        for state, count in self._states().items():
            workers.add_metric([state.value], count)
        preemptions, counts = _preemptions(), self._scheduler.preemptions
        for outcome in ("asked", "given", "overtakings"):
            preemptions.add_metric([outcome], getattr(counts, outcome))
        attempts = _attempts()
        attempts.add_metric([], self._scheduler.attempts)
        yield from (depth, workers, preemptions, attempts)

    def _waiting(self) -> dict[tuple[str, str], int]:
        depth: dict[tuple[str, str], int] = {}
        for tenant_id, reason, count in self._scheduler.queue_depth():
            key = (self._tenants.known(tenant_id), reason.value)
            depth[key] = depth.get(key, 0) + count
        return depth

    def _states(self) -> dict[WorkerState, int]:
        now_us = self._clock.monotonic_us()
        counts = dict.fromkeys(WorkerState, 0)
        for worker in self._scheduler.workers():
            counts[worker.state(now_us)] += 1
        return counts


def _depth() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_queue_depth",
        "Waiting requests, by the reason for which they wait",
        labels=("tenant", "reason"),
    )


def _workers() -> GaugeMetricFamily:
    return GaugeMetricFamily("weir_scheduler_workers", "Workers by state", labels=("state",))


def _preemptions() -> CounterMetricFamily:
    """By policy; those for want of memory are counted by the workers."""
    return CounterMetricFamily(
        "weir_scheduler_policy_preemptions",
        "Places that urgent requests asked for, were given, and took by overtaking",
        labels=("outcome",),
    )


def _attempts() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_scheduler_attempts", "Attempts that take up a place on a worker", labels=()
    )
