"""The directory, in the terms of the scheduler."""

from weir.directory.v1 import directory_pb2 as directory
from weir_core.directory import DirectoryIndex, Parameters
from weir_core.errors import Reason, WeirError
from weir_scheduler.rules.rules import (
    Isolation,
    PoolRules,
    RequestRules,
    TenantRules,
    WorkerRules,
)
from weir_scheduler.server.queue_rules import queue_rules

_DEFAULT_POOL = "default"
_ISOLATIONS = {
    directory.ISOLATION_SHARED: Isolation.SHARED,
    directory.ISOLATION_DEDICATED: Isolation.DEDICATED,
}
_POLICIES = {
    directory.SCHEDULER_POLICY_PRIORITY: "priority",
    directory.SCHEDULER_POLICY_SHORTEST_REMAINING: "shortest_remaining",
}


class DirectoryRules:
    """`Rules` over the last good version of the directory."""

    def __init__(self) -> None:
        self._index: DirectoryIndex | None = None
        self._tenants: dict[str, TenantRules] = {}

    def use(self, index: DirectoryIndex) -> None:
        """From now on this version."""
        self._index = index
        self._tenants.clear()

    def pool(self, model: str) -> PoolRules:
        """See `Rules.pool`."""
        if self._index is None:
            raise WeirError(
                Reason.DIRECTORY_UNAVAILABLE,
                "the scheduler has not received the directory yet",
                retry_after_s=1.0,
            )
        entry = self._index.model(model)
        if entry is None:
            raise WeirError(Reason.MODEL_NOT_FOUND, f"model {model!r} is not in the directory")
        pool = self._index.pool(entry.pool)
        if pool is None:
            return PoolRules(entry.pool or _DEFAULT_POOL, Isolation.WEIGHTED, "fifo")
        return PoolRules(
            pool.name,
            _ISOLATIONS.get(pool.isolation, Isolation.WEIGHTED),
            _POLICIES.get(pool.scheduler_policy, "fifo"),
            queue=queue_rules(pool),
        )

    def request(self, model: str, tenant_id: str) -> RequestRules:
        """See `Rules.request`."""
        parameters = self._parameters(model, tenant_id)
        return RequestRules(
            alpha_millis=parameters.alpha_millis,
            batch_wait_us=parameters.batch_wait_ms * 1_000,
            queue_timeout_us=parameters.queue_timeout_ms * 1_000,
            max_queued_requests=parameters.max_queued_requests,
        )

    def tenant(self, tenant_id: str) -> TenantRules:
        """See `Rules.tenant`."""
        if self._index is None:
            return TenantRules(1, 0, 0)
        known = self._tenants.get(tenant_id)
        if known is None:
            policy = self._index.policy(tenant_id)
            known = TenantRules(
                policy.weight or 1, policy.max_running_requests, policy.max_queued_requests
            )
            # Asked at every charge; tenants that the directory does not know are not kept.
            if self._index.tenant(tenant_id) is not None:
                self._tenants[tenant_id] = known
        return known

    def worker(self, model: str, profile: str) -> WorkerRules:
        """See `Rules.worker`."""
        parameters = self._parameters(model, "", profile)
        return WorkerRules(
            max_batch_size=parameters.max_batch_size,
            max_batch_tokens=parameters.max_batch_tokens,
            max_step_tokens=parameters.max_step_tokens,
            max_concurrent_requests=parameters.max_concurrent_requests,
        )

    def _parameters(self, model: str, tenant_id: str, profile: str = "") -> Parameters:
        entry = self._index.model(model) if self._index else None
        if self._index is None or entry is None:
            return Parameters()
        return self._index.parameters(entry.name, tenant_id, profile)
