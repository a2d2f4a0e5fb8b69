"""The way in which tenants take turns, as a pool is configured."""

from collections.abc import Callable

from weir_scheduler.policies.named import policy_named
from weir_scheduler.queues.rounds.shared.shared_round import SharedRound
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.queues.rounds.weighted.weighted_round import WeightedRound
from weir_scheduler.rules.rules import Isolation, PoolRules


def new_round(pool: PoolRules, weight_of: Callable[[str], int]) -> TenantRound:
    """An empty round.

    Args:
        pool: isolation, policy and its parameters.
        weight_of: a tenant's weight.

    Raises:
        KeyError: the policy is unknown.
        ValueError: a parameter of the policy is out of its range.
    """
    policy = policy_named(pool.policy, pool.queue.ordering)
    if pool.isolation is Isolation.SHARED:
        return SharedRound(policy)
    return WeightedRound(policy, weight_of)
