"""The way in which tenants take turns, as a pool is configured."""

from collections.abc import Callable

from weir_scheduler.policies.named import policy_named
from weir_scheduler.queues.rounds.locality.cached_pieces import NothingCached, PrefixReader
from weir_scheduler.queues.rounds.locality.locality_round import LocalityRound
from weir_scheduler.queues.rounds.shared.shared_round import SharedRound
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.queues.rounds.weighted.weighted_round import WeightedRound
from weir_scheduler.rules.queue_rules import FairQueue
from weir_scheduler.rules.rules import Isolation, PoolRules


def new_round(
    pool: PoolRules, weight_of: Callable[[str], int], prefixes: PrefixReader | None = None
) -> TenantRound:
    """An empty round.

    Args:
        pool: isolation, turns, policy and its parameters.
        weight_of: a tenant's weight.
        prefixes: what the caches of the pool hold; None: nothing is known of them.

    Raises:
        KeyError: the policy is unknown.
        ValueError: a parameter of the policy is out of its range.
    """
    policy = policy_named(pool.policy, pool.queue.ordering)
    if pool.isolation is Isolation.SHARED:
        return SharedRound(policy)
    if pool.queue.fair_queue is FairQueue.LOCALITY:
        known = prefixes or NothingCached()
        return LocalityRound(policy, weight_of, pool.queue.quantum_tokens, known)
    return WeightedRound(policy, weight_of)
