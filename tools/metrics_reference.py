"""Every metric of every service, read from the objects that make them.

The families of a service are those of the classes that it puts into its registry; here these are
made once more, with stand-ins for what they would read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from weir_core.clock import ManualClock
from weir_core.rpc.interceptors.metrics import MetricsInterceptor
from weir_core.telemetry.busiest import Busiest
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import errors_dropped
from weir_core.tls.identity import certificate_expiry
from weir_gateway.degradation.metrics import DegradationMetrics
from weir_gateway.directory.metrics import DirectoryMetrics
from weir_gateway.idempotency.metrics import IdempotencyMetrics
from weir_gateway.metrics import GatewayMetrics
from weir_ratelimiter.ledger.metrics import LedgerMetrics
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.store.degraded.metrics import DegradedMetrics, GapCollector
from weir_ratelimiter.store_metrics import StoreCollector
from weir_scheduler.server.leader_metrics import watch_leadership
from weir_scheduler.server.pool_metrics import PoolCollector
from weir_scheduler.server.queue_metrics import QueueMetrics, SchedulerCollector
from weir_scheduler.server.scaling_metrics import ScalingCollector
from weir_worker.device_metrics import DeviceCollector
from weir_worker.engine_metrics import EngineCollector
from weir_worker.metrics import WorkerMetrics, registered_gauge, streams_gauge
from weir_worker.vllm_metrics import VllmMetrics

EVERY = "every service"
_SUFFIXES = {"counter": "_total", "info": "_info"}

# Units by the end of a name; of the longest that fits.
_ENDS = {
    "_seconds": "seconds",
    "_ms": "milliseconds",
    "_bytes": "bytes",
    "_bytes_used": "bytes",
    "_tokens": "tokens",
    "_ratio": "ratio",
    "_requests": "requests",
    "_workers": "workers",
    "_blocks": "blocks",
    "_rows": "rows",
    "_steps": "steps",
    "_events": "events",
    "_calls": "calls",
    "_attempts": "attempts",
    "_leases": "leases",
    "_reservations": "reservations",
    "_replicas": "replicas",
    "_streams": "streams",
    "_fds": "files",
    "_preemptions": "preemptions",
    "_tokens_per_second": "tokens per second",
    "_seconds_by_phase": "seconds",
    "_slots": "slots",
    "_evictions": "blocks",
    "_queries": "tokens",
    "_hits": "tokens",
    "_objects_collected": "objects",
    "_objects_uncollectable": "objects",
    "_collections": "collections",
    "_requests_in_flight": "requests",
    "_info": "1",
}
# Names that were promised, or that others gave.
_WHOLE = {
    "time_to_first_token": "seconds",
    "tokens_per_second": "tokens per second",
    "end_to_end_latency": "seconds",
    "prefill_latency_ms": "milliseconds",
    "decode_latency_per_token_ms": "milliseconds",
    "kv_cache_hit_rate_prefix": "ratio",
    "kv_cache_hit_rate_session": "ratio",
    "gen_ai_server_time_to_first_token": "seconds",
    "gen_ai_server_time_per_output_token": "seconds",
    "gen_ai_server_request_duration": "seconds",
    "gen_ai_client_token_usage": "tokens",
    "grpc_server_started": "calls",
    "grpc_server_handled": "calls",
    "grpc_server_in_flight": "calls",
    "vllm:num_requests_running": "requests",
    "vllm:num_requests_waiting": "requests",
    "vllm:kv_cache_usage_perc": "ratio",
    "vllm:prompt_tokens_cached": "tokens",
    "vllm:request_success": "requests",
    "weir_trace_errors_dropped": "traces",
    "weir_gateway_refused": "requests",
    "weir_gateway_limited": "requests",
    "weir_gateway_unsettled": "requests",
    "weir_gateway_jobs_running": "attempts",
    "weir_gateway_degradations": "changes",
    "weir_gateway_directory_version": "Unix milliseconds",
    "weir_gateway_directory_refused": "readings",
    "weir_ratelimiter_decisions": "decisions",
    "weir_ratelimiter_degraded_decisions": "decisions",
    "weir_ratelimiter_refusals": "refusals",
    "weir_ratelimiter_shadow_refusals": "refusals",
    "weir_ratelimiter_settle_conflicts": "settlements",
    "weir_ratelimiter_debt_units": "units of the limit",
    "weir_ratelimiter_ledger_duplicates": "events",
    "weir_ratelimiter_ledger_errors": "failures",
    "weir_ratelimiter_mode": "0 or 1",
    "weir_ratelimiter_store_states_lost": "losses",
    "weir_ratelimiter_pending_replays": "reservations",
    "weir_ratelimiter_replayed": "reservations",
    "weir_scheduler_active": "0 or 1",
    "weir_scheduler_leader_epoch": "term",
    "weir_scheduler_queue_depth": "requests",
    "weir_scheduler_rejections": "requests",
    "weir_scheduler_requeues": "attempts",
    "weir_scheduler_dispatches": "attempts",
    "weir_scheduler_retry_after": "requests",
    "weir_scheduler_slo_attainment": "ratio",
    "weir_scheduler_slo_burn_rate": "ratio",
    "weir_scheduler_scaling_known": "0 or 1",
    "weir_scheduler_scaling_tokens_in_flight": "tokens",
    "weir_worker_engine_up": "0 or 1",
    "weir_worker_registered": "0 or 1",
    "weir_worker_attempts_finished": "attempts",
    "weir_worker_starts_refused": "attempts",
}


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as it is exported, with `_total` of a counter.
        kind: counter, gauge, histogram or info.
        labels: names of its labels.
        unit: of its values.
        text: its help.
        service: which exports it.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    text: str
    service: str


def catalogue() -> list[Family]:
    """All families: those of every service first, then by service, in the order of the code."""
    common = _read(EVERY, _everywhere)
    known = {family.name for family in common}
    found = list(common)
    for service, make in _SERVICES.items():
        found += [family for family in _read(service, make) if family.name not in known]
    return found


def unit_of(name: str) -> str:
    """The unit of a family by its name, without `_total`. Raises KeyError: it says none."""
    if name in _WHOLE:
        return _WHOLE[name]
    ends = [end for end in _ENDS if name.endswith(end)]
    if not ends:
        raise KeyError(f"the name {name} says no unit; end it with one, or add it to _WHOLE")
    return _ENDS[max(ends, key=len)]


def metrics_table(service: str) -> str:
    """The families of a service, as a table of Markdown."""
    head = "| metric | type | labels | unit | what it is |\n|---|---|---|---|---|"
    rows = [
        f"| `{family.name}` | {family.kind} | {_code(family.labels)} | {family.unit} "
        f"| {family.text} |"
        for family in catalogue()
        if family.service == service
    ]
    return "\n".join([head, *rows])


def _code(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def _read(service: str, make: Callable[[CollectorRegistry], object]) -> list[Family]:
    registry = create_registry() if service == EVERY else CollectorRegistry(auto_describe=True)
    make(registry)
    return list(_families(service, registry))


def _families(service: str, registry: CollectorRegistry) -> Iterator[Family]:
    # The client library tells the labels of a family without samples nowhere else.
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            yield _family(service, next(iter(collector.describe())), tuple(collector._labelnames))
        else:
            for metric in _described(collector):
                yield _family(service, metric, tuple(getattr(metric, "_labelnames", ())))


def _described(collector: Any) -> Iterator[Metric]:
    describe = getattr(collector, "describe", collector.collect)
    yield from describe()


def _family(service: str, metric: Metric, labels: tuple[str, ...]) -> Family:
    exported = metric.name + _SUFFIXES.get(metric.type, "")
    unit = unit_of(metric.name + ("_info" if metric.type == "info" else ""))
    if not labels and metric.samples:
        labels = tuple(metric.samples[0].labels)
    text = metric.documentation.strip().rstrip(".")
    return Family(exported, metric.type, labels, unit, text, service)


def _everywhere(registry: CollectorRegistry) -> None:
    MetricsInterceptor(registry)
    errors_dropped(registry)
    certificate_expiry(registry, "tls", float)


def _gateway(registry: CollectorRegistry) -> None:
    GatewayMetrics(registry)
    DirectoryMetrics(registry)
    DegradationMetrics(registry)
    IdempotencyMetrics(registry)
    certificate_expiry(registry, "edge_tls", float)


def _ratelimiter(registry: CollectorRegistry) -> None:
    LimiterMetrics(registry)
    LedgerMetrics(registry)
    StoreCollector(MagicMock(), registry)
    DegradedMetrics(registry)
    nothing = MagicMock()
    GapCollector(nothing, nothing, nothing, nothing, int, registry)


def _scheduler(registry: CollectorRegistry) -> None:
    clock, tenants, scheduler = ManualClock(), Busiest(), MagicMock()
    QueueMetrics(registry, clock, tenants)
    SchedulerCollector(scheduler, clock, registry, tenants)
    PoolCollector(scheduler, registry, tenants)
    ScalingCollector(MagicMock(), registry)
    watch_leadership(registry, MagicMock())


def _worker(registry: CollectorRegistry) -> None:
    engine = MagicMock()
    WorkerMetrics(registry)
    EngineCollector(registry, engine, ManualClock())
    DeviceCollector(registry, MagicMock(), MagicMock())
    streams_gauge(registry, int)
    registered_gauge(registry, bool)


def _vllm(registry: CollectorRegistry) -> None:
    VllmMetrics(registry, MagicMock(), "")


_SERVICES: dict[str, Callable[[CollectorRegistry], object]] = {
    "gateway": _gateway,
    "ratelimiter": _ratelimiter,
    "scheduler": _scheduler,
    "worker": _worker,
    "worker with vllm_metrics": _vllm,
}
SERVICES = (EVERY, *_SERVICES)
