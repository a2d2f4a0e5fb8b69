"""Which pool a request goes to, and which one a worker belongs to."""

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.pool_scope import PromptLength
from weir_scheduler.rules.rules import PoolRules


def prompt_length(prompt_tokens: int, long_context_threshold: int) -> PromptLength:
    """Long is above the threshold; a threshold of 0 knows no long prompts."""
    if 0 < long_context_threshold < prompt_tokens:
        return PromptLength.LONG
    return PromptLength.SHORT


def pools_for(
    first: PoolRules, tenant_id: str, request_class: RequestClass, length: PromptLength
) -> list[PoolRules]:
    """Pools of a model that may run a request, the one that is meant for it first.

    A tenant's own pool comes before all others, then the pools for one class or length, then
    the rest; within these in the order of the configuration, the model's first pool last.
    """
    pools = [*first.further, first]
    fitting = [pool for pool in pools if pool.scope.takes(tenant_id, request_class, length)]
    return sorted(fitting, key=lambda pool: -pool.scope.specificity)


def pool_named(first: PoolRules, name: str) -> PoolRules:
    """The further pool of that name; the first one for an empty name, or when it is gone."""
    return next((pool for pool in first.further if pool.name == name), first)


def pool_of_worker(first: PoolRules, profile: str, dedicated_tenant_id: str) -> PoolRules:
    """The one pool of a model that a worker belongs to.

    One that is dedicated to a tenant: that tenant's pool. Else the pool that claims its
    profile, else the first of those that claim none and belong to no tenant.
    """
    pools = [first, *first.further]
    if dedicated_tenant_id:
        owned = [pool for pool in pools if pool.scope.tenant_id == dedicated_tenant_id]
        return owned[0] if owned else first
    claiming = [pool for pool in pools if profile in pool.scope.profiles]
    if claiming:
        return claiming[0]
    open_to_all = [pool for pool in pools if not pool.scope.profiles and not pool.scope.tenant_id]
    return open_to_all[0] if open_to_all else first
