"""What of a trace is run, and as what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import TenantRules
from weir_sim.traces.tenants import TenantMapping
from weir_sim.traces.trace_error import TraceError


@dataclass(frozen=True)
class WorkloadOptions:
    """How rows become requests.

    Attributes:
        limit: of requests; 0 for all.
        rate_scale: arrivals come so many times as fast.
        rate_rps: Poisson arrivals for formats that have lengths alone; 0: none given.
        from_s: begin of the part that is run, on the trace's axis; becomes 0.
        until_s: its end, exclusive.
        seed: of everything that is drawn.
        tenants: whose request a row becomes.
        weights: of tenants; those that are not named have 1.
        batch: tenants whose requests are of the class batch; `*` for all.
    """

    limit: int = 0
    rate_scale: float = 1.0
    rate_rps: float = 0.0
    from_s: float = 0.0
    until_s: float = float("inf")
    seed: int = 0
    tenants: TenantMapping = field(default_factory=TenantMapping)
    weights: Mapping[str, int] = field(default_factory=dict)
    batch: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise TraceError(f"--limit is {self.limit}; it must be 0 (all) or more")
        if not self.rate_scale > 0:
            raise TraceError(f"--rate-scale is {self.rate_scale}; it must be above 0")
        if not self.rate_rps >= 0:
            raise TraceError(f"--rate is {self.rate_rps}; it must be 0 or more requests/s")
        if not 0 <= self.from_s < self.until_s:
            raise TraceError(
                f"--from {self.from_s:g} and --until {self.until_s:g} hold nothing; "
                "the first must be 0 or more and below the second"
            )
        for tenant, weight in self.weights.items():
            if not 1 <= weight <= 1000:
                raise TraceError(f"--weights: {tenant} has {weight}; it must be 1 to 1000")

    def class_of(self, tenant_id: str) -> RequestClass:
        """The class of a tenant's requests."""
        batch = "*" in self.batch or tenant_id in self.batch
        return RequestClass.BATCH if batch else RequestClass.INTERACTIVE

    def tenant_rules(self) -> dict[str, TenantRules]:
        """Policies of the tenants that have a weight of their own."""
        return {
            tenant: TenantRules(weight=weight, max_running_requests=0, max_queued_requests=0)
            for tenant, weight in self.weights.items()
        }
