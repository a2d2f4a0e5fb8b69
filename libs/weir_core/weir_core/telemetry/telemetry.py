"""Everything a service needs to be seen, built once from its settings."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from weir_core.config import ServiceSettings
from weir_core.telemetry.logs import setup_logs
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.tracing import Tracing, setup_tracing
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
    tracing = setup_tracing(
        f"weir-{service}",
        endpoint=settings.otlp_endpoint,
        tenant_endpoints={
            tenant: store.otlp_endpoint for tenant, store in stores.items() if store.otlp_endpoint
        },
        sample_ratio=settings.trace_sample_ratio,
        instance=instance,
    )
    return Telemetry(tracing=tracing, registry=create_registry())
