"""Everything a service needs to be seen, built once from its settings."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from weir_core.config import ServiceSettings
from weir_core.telemetry.error_budget import ErrorBudget
from weir_core.telemetry.error_kind import ErrorKind
from weir_core.telemetry.logs import setup_logs
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.tracing import Tracing
from weir_core.telemetry.tracing_setup import setup_tracing
from weir_core.telemetry.uncaught import log_uncaught


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Traces and metrics of one process; logs are configured for the process as a whole."""

    tracing: Tracing
    registry: CollectorRegistry

    def shutdown(self) -> None:
        """Flushes what is still to be exported; blocks for 3 s at most."""
        self.tracing.shutdown()


def setup_telemetry(service: str, settings: ServiceSettings, *, instance: str = "") -> Telemetry:
    """Configures logs, tracing and a metrics registry for `service` (such as `gateway`)."""
    stores = settings.tenant_stores
    setup_logs(
        f"weir-{service}",
        level=settings.log_level,
        exception_messages=settings.log_exception_messages,
        tenant_files={tenant: store.log_file for tenant, store in stores.items() if store.log_file},
    )
    log_uncaught()
    registry = create_registry()
    tracing = setup_tracing(
        f"weir-{service}",
        endpoint=settings.otlp_endpoint,
        tenant_endpoints={
            tenant: store.otlp_endpoint for tenant, store in stores.items() if store.otlp_endpoint
        },
        sample_ratio=settings.trace_sample_ratio,
        instance=instance,
        errors=_error_budget(settings, registry),
    )
    return Telemetry(tracing=tracing, registry=registry)


def errors_dropped(registry: CollectorRegistry) -> Counter:
    """Counts traces with an error that went beyond `trace_errors_per_s`."""
    return Counter(
        "weir_trace_errors_dropped",
        "Unsampled traces with an error that were not exported: more than trace_errors_per_s",
        ["kind"],
        registry=registry,
    )


def _error_budget(settings: ServiceSettings, registry: CollectorRegistry) -> ErrorBudget:
    dropped = errors_dropped(registry)
    children = {kind: dropped.labels(kind.value) for kind in ErrorKind}
    return ErrorBudget(
        settings.trace_errors,
        settings.trace_errors_per_s,
        on_dropped=lambda kind: children[kind].inc(),
    )
