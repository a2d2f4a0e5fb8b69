"""The ways in which tenants take turns, by what the configuration calls them."""

from collections.abc import Callable, Mapping

from weir_scheduler.policies.named import policy_named
from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.queues.rounds.locality.cached_pieces import NothingCached, PrefixReader
from weir_scheduler.queues.rounds.locality.locality_round import LocalityRound
from weir_scheduler.queues.rounds.shared.shared_round import SharedRound
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.queues.rounds.weighted.weighted_round import WeightedRound
from weir_scheduler.rules.queue_rules import QueueRules
from weir_scheduler.rules.rules import Isolation, PoolRules

WeightOf = Callable[[str], int]
NewRound = Callable[[OrderingPolicy, WeightOf, QueueRules, PrefixReader], TenantRound]

ROUNDS: Mapping[str, NewRound] = {
    "shared": lambda policy, weight_of, rules, prefixes: SharedRound(policy),
    "tokens": lambda policy, weight_of, rules, prefixes: WeightedRound(policy, weight_of),
    "locality": lambda policy, weight_of, rules, prefixes: LocalityRound(
        policy, weight_of, rules, prefixes
    ),
}
"""Every way: isolation `shared`, and the fair queues of the other isolations. A new one is added
here and is then held to the conformance suite."""


def new_round(
    pool: PoolRules, weight_of: WeightOf, prefixes: PrefixReader | None = None
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
    shared = pool.isolation is Isolation.SHARED
    name = "shared" if shared else pool.queue.fair_queue.value
    known = NothingCached() if prefixes is None else prefixes
    return ROUNDS[name](policy, weight_of, pool.queue, known)
