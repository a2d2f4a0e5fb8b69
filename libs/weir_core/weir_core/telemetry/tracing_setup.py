"""Where the spans of a service go, by its settings."""

from collections.abc import Mapping

from weir_core.telemetry.error_budget import ErrorBudget
from weir_core.telemetry.span_redaction import SpanTarget
from weir_core.telemetry.tracing import Tracing


def setup_tracing(
    service: str,
    *,
    endpoint: str = "",
    tenant_endpoints: Mapping[str, str] | None = None,
    sample_ratio: float = 1.0,
    instance: str = "",
    errors: ErrorBudget | None = None,
) -> Tracing:
    """Tracing that exports over OTLP/gRPC to `endpoint`, or to nowhere when that is empty.

    Spans of the tenants in `tenant_endpoints` go to their own alone. An `http://` endpoint, or
    one without scheme, is plain text; `https://` is TLS.
    """
    return Tracing(
        service,
        processor=_exporter(endpoint) if endpoint else None,
        tenants={tenant: _exporter(url) for tenant, url in (tenant_endpoints or {}).items()},
        sample_ratio=sample_ratio,
        instance=instance,
        errors=errors,
    )


def _exporter(endpoint: str) -> SpanTarget:
    # Its libraries cost a process 2 to 4 MB, so they come when they are used.
    from weir_core.telemetry.otlp_export import OtlpSpans

    return OtlpSpans(endpoint)
