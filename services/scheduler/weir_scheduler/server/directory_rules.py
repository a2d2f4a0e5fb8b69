"""The directory, in the terms of the scheduler."""

from weir.directory.v1.directory_pb2 import SloTargets as SloMessage
from weir_core.directory import DirectoryIndex, Parameters
from weir_core.errors import Reason, WeirError
from weir_scheduler.rules.rules import PoolRules, RequestRules, TenantRules, WorkerRules
from weir_scheduler.rules.slo_targets import SloTargets
from weir_scheduler.server.pool_rules import pools_of_model

_OFFLINE_TIMES = 2
"""A batch with offline requests may cost so many times `max_batch_tokens`."""

_LONG_PART = 4
"""One of so many requests at once may be long, where no cap is set."""


class DirectoryRules:
    """`Rules` over the last good version of the directory."""

    def __init__(self) -> None:
        self._index: DirectoryIndex | None = None
        self._tenants: dict[str, TenantRules] = {}
        self._pools: dict[str, PoolRules] = {}

    def use(self, index: DirectoryIndex) -> None:
        """From now on this version."""
        self._index = index
        self._tenants.clear()
        self._pools.clear()

    def models(self) -> list[str]:
        """Names of the models of the directory; none before it is known."""
        return [] if self._index is None else [model.name for model in self._index.models]

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
        known = self._pools.get(entry.name)
        if known is None:
            known = self._pools[entry.name] = pools_of_model(self._index, entry)
        return known

    def request(self, model: str, tenant_id: str) -> RequestRules:
        """See `Rules.request`."""
        parameters = self._parameters(model, tenant_id)
        return RequestRules(
            alpha_millis=parameters.alpha_millis,
            batch_wait_us=parameters.batch_wait_ms * 1_000,
            queue_timeout_us=parameters.queue_timeout_ms * 1_000,
            max_queued_requests=parameters.max_queued_requests,
            offline_batch_wait_us=parameters.offline_batch_wait_ms * 1_000,
            long_context_threshold=parameters.long_context_threshold,
        )

    def tenant(self, tenant_id: str) -> TenantRules:
        """See `Rules.tenant`."""
        if self._index is None:
            return TenantRules(1, 0, 0)
        known = self._tenants.get(tenant_id)
        if known is None:
            policy = self._index.policy(tenant_id)
            known = TenantRules(
                weight=policy.weight or 1,
                max_running_requests=policy.max_running_requests,
                max_queued_requests=policy.max_queued_requests,
                slo=_targets(policy.slo),
            )
            # Asked at every charge; tenants that the directory does not know are not kept.
            if self._index.tenant(tenant_id) is not None:
                self._tenants[tenant_id] = known
        return known

    def worker(self, model: str, profile: str) -> WorkerRules:
        """See `Rules.worker`."""
        parameters = self._parameters(model, "", profile)
        at_once = min(parameters.max_batch_size, parameters.max_concurrent_requests)
        return WorkerRules(
            max_batch_size=parameters.max_batch_size,
            max_batch_tokens=parameters.max_batch_tokens,
            max_step_tokens=parameters.max_step_tokens,
            max_concurrent_requests=parameters.max_concurrent_requests,
            offline_max_batch_tokens=(
                parameters.offline_max_batch_tokens or _OFFLINE_TIMES * parameters.max_batch_tokens
            ),
            max_running_long=parameters.max_running_long or max(1, at_once // _LONG_PART),
        )

    def _parameters(self, model: str, tenant_id: str, profile: str = "") -> Parameters:
        entry = self._index.model(model) if self._index else None
        if self._index is None or entry is None:
            return Parameters()
        return self._index.parameters(entry.name, tenant_id, profile)


def _targets(message: SloMessage) -> SloTargets:
    return SloTargets(
        ttft_us=message.ttft_ms * 1_000,
        itl_us=message.itl_ms * 1_000,
        e2e_us=message.e2e_ms * 1_000,
        attainment_millis=message.attainment_millis or SloTargets().attainment_millis,
        shed=message.shed,
    )
