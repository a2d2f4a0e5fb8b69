"""What tenants have of their plans."""

from collections.abc import Sequence

from weir_gateway.directory.document import Document, TenantEntry
from weir_gateway.directory.entries import LimitEntry


def with_time_zones(document: Document) -> Document:
    """A tenant's window that replaces one of its plan and names no zone has the plan's.

    Args:
        document: checked: the plan of each tenant is there.
    """
    plans = {plan.id: plan.limits for plan in document.plans}
    tenants = tuple(_with_zones(tenant, plans[tenant.plan]) for tenant in document.tenants)
    return document.model_copy(update={"tenants": tenants})


def limits_of_tenant(tenant: TenantEntry, document: Document) -> list[LimitEntry]:
    """The plan's limits; the tenant's own replace those of the same id and add others."""
    plan = next(plan for plan in document.plans if plan.id == tenant.plan)
    return list({limit.effective_id: limit for limit in (*plan.limits, *tenant.limits)}.values())


def _with_zones(tenant: TenantEntry, of_plan: Sequence[LimitEntry]) -> TenantEntry:
    zones = {limit.effective_id: limit.time_zone for limit in of_plan if limit.time_zone}
    limits = tuple(_with_zone(limit, zones.get(limit.effective_id)) for limit in tenant.limits)
    return tenant if limits == tenant.limits else tenant.model_copy(update={"limits": limits})


def _with_zone(limit: LimitEntry, zone: str | None) -> LimitEntry:
    if zone is None or limit.window is None or limit.time_zone is not None:
        return limit
    return limit.model_copy(update={"time_zone": zone})
