"""How one step's prefill tokens are divided among the prompts that wait for them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence


def prefill_shares(
    remaining: Sequence[tuple[str, int]],
    budget: int,
    weights: Mapping[str, int],
    passed: Sequence[str] = (),
) -> list[int]:
    """Divide `budget` tokens.

    Tenants share it max-min fairly by weight, and each has one token at least: those `passed`
    over last time first, where there are fewer tokens than tenants. Within a tenant, in order
    of arrival, each prompt but the last takes at most half of what is left: most prompts still
    finish one after the other, and a long one stalls no other for its whole length. Nothing is
    left over while a prompt could use it.

    Args:
        remaining: (tenant, tokens to compute) of each prompt, in order of arrival.
        budget: tokens, 0 or more.
        weights: share of each tenant, by ratio, 1 or more.
        passed: tenants that got nothing last time, who has waited longest first.

    Returns:
        Tokens for each prompt, in the same order; 0 means not in this step.
    """
    if sum(length for _, length in remaining) <= budget:
        return [length for _, length in remaining]
    members: defaultdict[str, list[int]] = defaultdict(list)
    for index, (tenant, _) in enumerate(remaining):
        members[tenant].append(index)
    demand = {
        tenant: sum(remaining[i][1] for i in members[tenant])
        for tenant in dict.fromkeys((*passed, *members))
        if tenant in members
    }
    shares = [0] * len(remaining)
    for tenant, tokens in _max_min(demand, budget, weights).items():
        lengths = [remaining[i][1] for i in members[tenant]]
        for index, share in zip(members[tenant], _halving(lengths, tokens), strict=True):
            shares[index] = share
    return shares


def _max_min(demand: dict[str, int], budget: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Give each tenant its demand or its part by weight, whichever is less; spread the rest."""
    if budget < len(demand):
        return {tenant: int(place < budget) for place, tenant in enumerate(demand)}
    granted: dict[str, int] = {}
    left = sum(weights[tenant] for tenant in demand)
    # Whoever wants least for its weight first: what it leaves is spread over the others.
    for tenant, wanted in sorted(demand.items(), key=lambda item: item[1] / weights[item[0]]):
        behind = len(demand) - len(granted) - 1
        part = max(1, budget * weights[tenant] // left)
        granted[tenant] = min(wanted, part, budget - behind)
        budget -= granted[tenant]
        left -= weights[tenant]
    return granted


def _halving(lengths: list[int], tokens: int) -> list[int]:
    shares = []
    for rank, length in enumerate(lengths):
        cap = tokens if rank == len(lengths) - 1 else tokens - tokens // 2
        shares.append(min(length, cap))
        tokens -= shares[-1]
    for rank, length in enumerate(lengths):
        more = min(tokens, length - shares[rank])
        shares[rank] += more
        tokens -= more
    return shares
