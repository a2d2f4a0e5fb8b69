"""How one step's prefill tokens are divided among the prompts that wait for them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

# So few tokens of a tenant go to one of its prompts: the KV of each is read, however few rows do.
_UNDIVIDED = 16


def prefill_shares(
    remaining: Sequence[tuple[str, int]],
    budget: int,
    weights: Mapping[str, int],
    passed: Sequence[str] = (),
    turn: int = 1,
) -> list[int]:
    """Divide `budget` tokens.

    Tenants share it max-min fairly by weight, and each has one token at least: those `passed`
    over last time first, where there are fewer tokens than tenants. Within a tenant, in order
    of arrival, each prompt but the last takes at most half of what is left: most prompts still
    finish one after the other, and a long one stalls no other for its whole length. 16 tokens or
    fewer are halved over time: the first prompt has them every second turn, the next every
    fourth, and so on. Nothing is left over while a prompt could use it.

    Args:
        remaining: (tenant, tokens to compute) of each prompt, in order of arrival.
        budget: tokens, 0 or more.
        weights: share of each tenant, by ratio, 1 or more.
        passed: tenants that got nothing last time, who has waited longest first.
        turn: number of the step, 1 or more.

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
        for index, share in zip(members[tenant], _halving(lengths, tokens, turn), strict=True):
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


def _halving(lengths: list[int], tokens: int, turn: int) -> list[int]:
    if tokens <= _UNDIVIDED:
        return _undivided(lengths, tokens, turn)
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


def _undivided(lengths: list[int], tokens: int, turn: int) -> list[int]:
    # The trailing zeros of a count are 0 every second time, 1 every fourth, and so on.
    rank = min((turn & -turn).bit_length() - 1, len(lengths) - 1)
    shares = [0] * len(lengths)
    for index in (rank, *range(len(lengths))):
        more = min(tokens, lengths[index] - shares[index])
        shares[index] += more
        tokens -= more
    return shares
