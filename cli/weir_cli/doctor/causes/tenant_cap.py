"""A tenant's own cap keeps its requests waiting."""

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding

WAIT = 0.5
"""Requests that wait at the cap on average; fewer come and go by chance."""


class TenantCap:
    """`max_running_requests` of a tenant's policy."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        share = excess.share(Part.TENANT_CAP)
        held = sorted(evidence.waiting.by_tenant_cap.items(), key=lambda one: -one[1])
        if not share or not held or held[0][1] < WAIT:
            return None
        tenant, waits = held[0]
        before = evidence.waited.by_tenant_cap.get(tenant, 0.0)
        return Finding(
            cause="tenant_cap",
            symptom=excess.symptom,
            share=share,
            subject=tenant,
            evidence=(
                f"{waits:.1f} requests of tenant {tenant} wait at its own cap on average, "
                f"{before:.1f} before, whether or not workers have places",
            ),
            remedy=f"raise `max_running_requests` in the policy of {tenant} or of its plan",
        )
