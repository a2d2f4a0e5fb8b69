"""A run's configuration in the terms of the scheduler."""

from weir_scheduler.rules.rules import PoolRules, RequestRules, TenantRules, WorkerRules
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.workload import Workload


class SimRules:
    """`Rules` of one run: one pool for all, tenants from the workload, workers by profile."""

    def __init__(self, workload: Workload, setup: Setup) -> None:
        self._setup = setup
        self._tenants = dict(workload.tenants)
        self._workers: dict[str, WorkerRules] = {}

    def add_worker(self, profile: str, spec: WorkerSpec) -> None:
        """Bounds of a worker that registers with this profile."""
        self._workers[profile] = WorkerRules(
            max_batch_size=spec.max_batch_size,
            max_batch_tokens=spec.max_batch_tokens,
            max_step_tokens=spec.max_step_tokens,
            max_concurrent_requests=spec.max_concurrent_requests,
        )

    def pool(self, model: str) -> PoolRules:
        """The pool of the setup, whatever the model."""
        return self._setup.pool

    def request(self, model: str, tenant_id: str) -> RequestRules:
        """Parameters of the setup."""
        return self._setup.request

    def tenant(self, tenant_id: str) -> TenantRules:
        """Policy by the workload, else the setup's default."""
        return self._tenants.get(tenant_id, self._setup.tenant)

    def worker(self, model: str, profile: str) -> WorkerRules:
        """Bounds of the spec. Raises KeyError for a worker that was not added."""
        return self._workers[profile]
