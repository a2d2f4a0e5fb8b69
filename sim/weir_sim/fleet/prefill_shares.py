"""How one step's prefill tokens are divided among the prompts that wait for them.

The rule of the product's worker: tenants share max-min fairly by weight; within a tenant, in
order of arrival, each prompt but the last takes at most half of what is left, or, where that is
little, has all of it in every second turn. A test holds both to the same answers.
"""

from collections.abc import Sequence

from weir_sim.fleet.sequence import SimSequence

_UNDIVIDED = 16


def prefill_shares(prefilling: Sequence[SimSequence], budget: int, turn: int = 1) -> list[int]:
    """Divides `budget` tokens (0 or more) over prompts in order of arrival.

    Args:
        prefilling: the prompts.
        budget: tokens.
        turn: number of the step, 1 or more.

    Returns:
        Tokens for each, 0 for not in this step; nothing is left over while one could use it.
    """
    lengths = [sequence.remaining for sequence in prefilling]
    if sum(lengths) <= budget:
        return lengths
    members: dict[str, list[int]] = {}
    for index, sequence in enumerate(prefilling):
        members.setdefault(sequence.tenant, []).append(index)
    if len(members) == 1:
        return _halving(lengths, budget, turn)
    demand = {t: sum(lengths[i] for i in of_tenant) for t, of_tenant in members.items()}
    weights = {sequence.tenant: sequence.weight for sequence in prefilling}
    shares = [0] * len(lengths)
    for tenant, tokens in _max_min(demand, budget, weights).items():
        own = members[tenant]
        divided = _halving([lengths[i] for i in own], tokens, turn)
        for index, share in zip(own, divided, strict=True):
            shares[index] = share
    return shares


def _max_min(demand: dict[str, int], budget: int, weights: dict[str, int]) -> dict[str, int]:
    """To each its demand or its part by weight, whichever is less; the rest is spread."""
    if budget < len(demand):
        return {tenant: int(place < budget) for place, tenant in enumerate(demand)}
    granted: dict[str, int] = {}
    weight_left = sum(weights[tenant] for tenant in demand)
    for tenant, wanted in sorted(demand.items(), key=lambda item: item[1] / weights[item[0]]):
        behind = len(demand) - len(granted) - 1
        part = max(1, budget * weights[tenant] // weight_left)
        granted[tenant] = min(wanted, part, budget - behind)
        budget -= granted[tenant]
        weight_left -= weights[tenant]
    return granted


def _halving(lengths: Sequence[int], tokens: int, turn: int) -> list[int]:
    if tokens <= _UNDIVIDED:
        return _undivided(lengths, tokens, turn)
    shares = []
    last = len(lengths) - 1
    for rank, length in enumerate(lengths):
        shares.append(min(length, tokens if rank == last else tokens - tokens // 2))
        tokens -= shares[-1]
    for rank, length in enumerate(lengths):
        if not tokens:
            break
        more = min(tokens, length - shares[rank])
        shares[rank] += more
        tokens -= more
    return shares


def _undivided(lengths: Sequence[int], tokens: int, turn: int) -> list[int]:
    rank = min((turn & -turn).bit_length() - 1, len(lengths) - 1)
    shares = [0] * len(lengths)
    for index in (rank, *range(len(lengths))):
        more = min(tokens, lengths[index] - shares[index])
        shares[index] += more
        tokens -= more
    return shares
