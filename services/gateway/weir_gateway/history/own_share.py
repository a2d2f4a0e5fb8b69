"""What of a sample a tenant may see: what is its own, and nothing that tells of others."""

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_core.telemetry.metrics import OTHER


def own_share(sample: HistorySample, tenant_id: str) -> HistorySample:
    """The tenant's requests, and what of them waits; an empty id for all, as it is."""
    if not tenant_id:
        return sample
    # A tenant may be called as the row in which those beyond the bound are added up.
    shown = sample.flows if tenant_id != OTHER else ()
    return HistorySample(
        end_time=sample.end_time,
        duration=sample.duration,
        flows=[flow for flow in shown if flow.tenant_id == tenant_id],
        depths=[depth for depth in sample.depths if depth.tenant_id == tenant_id],
        limits=[limits for limits in sample.limits if limits.tenant_id == tenant_id],
        far_read=sample.far_read,
    )
