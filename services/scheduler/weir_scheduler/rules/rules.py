"""What the configuration says, in the terms of the scheduler."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.rules.pool_scope import PoolScope, WhenGone
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.queue_rules import QueueRules
from weir_scheduler.rules.shares import Shares
from weir_scheduler.rules.shedding_rules import SheddingRules
from weir_scheduler.rules.slo_targets import SloTargets
from weir_scheduler.scaling.pool_scaling import PoolScaling

_PLACEMENT = PlacementRules()
_QUEUE = QueueRules()
_EVERYTHING = PoolScope()
_SHARES = Shares()
_SHEDDING = SheddingRules()
_NO_TARGETS = SloTargets()
_SCALING = PoolScaling()


class Isolation(StrEnum):
    """How the tenants of a pool are kept apart."""

    SHARED = "shared"
    WEIGHTED = "weighted"
    DEDICATED = "dedicated"


@dataclass(frozen=True, slots=True)
class PoolRules:
    """How a pool queues.

    Attributes:
        name: of the pool.
        isolation: of its tenants.
        policy: name of the order within a queue, a key of `policies.named.POLICIES`.
        placement: how its requests are placed.
        preemption: bounds of pre-emption by policy; None: never.
        queue: turns between tenants, and parameters of the policy.
        scope: which requests and workers it is for.
        shares: of its classes and lengths.
        when_gone: what becomes of its requests while none of its workers is live.
        shedding: which requests it refuses while it is busy.
        further: of a model's first pool, the others that serve the model (see `routing`).
        scaling: how many workers it may have, where it says so itself.
    """

    name: str
    isolation: Isolation
    policy: str
    placement: PlacementRules = _PLACEMENT
    preemption: PreemptionRules | None = None
    queue: QueueRules = _QUEUE
    scope: PoolScope = _EVERYTHING
    shares: Shares = _SHARES
    when_gone: WhenGone = WhenGone.REFUSE
    shedding: SheddingRules = _SHEDDING
    further: tuple["PoolRules", ...] = ()
    scaling: PoolScaling = _SCALING


@dataclass(frozen=True, slots=True)
class RequestRules:
    """Parameters of one model for one tenant.

    Attributes:
        alpha_millis: weight of max_new_tokens in the estimated cost, thousandths.
        batch_wait_us: batch window of an idle worker, interactive and SLA normal.
        queue_timeout_us: longest wait of an interactive request.
        max_queued_requests: requests of the model that may wait, over all tenants.
        offline_batch_wait_us: batch window of the class batch; None: ten times `batch_wait_us`.
        long_context_threshold: prompts above it are long, tokens; 0: none is.
    """

    alpha_millis: int
    batch_wait_us: int
    queue_timeout_us: int
    max_queued_requests: int
    offline_batch_wait_us: int | None = None
    long_context_threshold: int = 0


@dataclass(frozen=True, slots=True)
class TenantRules:
    """Policy of one tenant.

    Attributes:
        weight: share in the weighted round, 1 to 1000.
        max_running_requests: dispatched at once over all workers; 0 for no cap.
        max_queued_requests: waiting at once; 0 for the scheduler's default.
        slo: what its interactive answers should take.
    """

    weight: int
    max_running_requests: int
    max_queued_requests: int
    slo: SloTargets = _NO_TARGETS


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """Bounds of what one worker is given, resolved for its profile.

    Attributes:
        max_batch_size: requests at once in the batch.
        max_batch_tokens: summed estimated cost of them, tokens.
        max_step_tokens: the worker's own bound on a step, passed on to it.
        max_concurrent_requests: requests at once, streams included.
        offline_max_batch_tokens: bound on the cost of a batch that holds offline requests, see
            `placement.fit`; 0: `max_batch_tokens` bounds them too.
        max_running_long: long prompts at once; 0 for no cap of their own.
    """

    max_batch_size: int
    max_batch_tokens: int
    max_step_tokens: int
    max_concurrent_requests: int
    offline_max_batch_tokens: int = 0
    max_running_long: int = 0


class Rules(Protocol):
    """Where the scheduler reads its configuration; answers may change between calls."""

    def pool(self, model: str) -> PoolRules:
        """The first pool of a model, others in its `further`. Raises WeirError if unknown."""

    def request(self, model: str, tenant_id: str) -> RequestRules:
        """Parameters for requests; the product's defaults for an unknown model."""

    def tenant(self, tenant_id: str) -> TenantRules:
        """Policy of a tenant; an unknown one has the defaults."""

    def worker(self, model: str, profile: str) -> WorkerRules:
        """Bounds of a worker; the product's defaults for an unknown model."""
