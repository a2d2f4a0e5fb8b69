"""What one request asks of each resource, and what it is charged in the end."""

from weir_core.bucket import MAX_UNITS
from weir_ratelimiter.domain.limit import Resource
from weir_ratelimiter.domain.price import FREE, Price
from weir_ratelimiter.domain.usage import Usage

Amounts = tuple[int, ...]
"""Units by `Resource`, which is the index."""

_SIZE = max(Resource) + 1


def demand(
    prompt_tokens: int,
    output_tokens: int,
    max_new_tokens: int,
    streams: bool,
    price: Price = FREE,
    *,
    requests: int = 1,
    at_once: bool = False,
) -> Amounts:
    """Units that a request takes of every resource.

    Args:
        prompt_tokens: exact prompt length, tokens.
        output_tokens: output to reserve, tokens; at most `max_new_tokens`.
        max_new_tokens: bound on output, tokens; what context limits see.
        streams: whether it also holds a streaming lease.
        price: what its tokens cost.
        requests: how many requests it counts as.
        at_once: it is over as soon as it is admitted: no lease, no hold, no context.
    """
    amounts = [0] * _SIZE
    amounts[Resource.REQUESTS] = requests
    amounts[Resource.TOKENS] = prompt_tokens + output_tokens
    amounts[Resource.INPUT_TOKENS] = prompt_tokens
    amounts[Resource.OUTPUT_TOKENS] = output_tokens
    amounts[Resource.COST] = price.most(prompt_tokens, output_tokens)
    if at_once:
        return tuple(amounts)
    amounts[Resource.CONCURRENCY] = 1
    amounts[Resource.STREAMS] = 1 if streams else 0
    amounts[Resource.IN_FLIGHT_TOKENS] = prompt_tokens + output_tokens
    amounts[Resource.CONTEXT_TOKENS] = prompt_tokens + max_new_tokens
    amounts[Resource.PROMPT_TOKENS] = prompt_tokens
    amounts[Resource.MAX_NEW_TOKENS] = max_new_tokens
    return tuple(amounts)


def charges(usage: Usage, requests: int, price: Price = FREE) -> Amounts:
    """Units of every resource that a request with `usage` costs in the end; 0 of what is held."""
    amounts = [0] * _SIZE
    amounts[Resource.REQUESTS] = requests
    amounts[Resource.TOKENS] = min(usage.prompt_tokens + usage.completion_tokens, MAX_UNITS)
    amounts[Resource.INPUT_TOKENS] = usage.prompt_tokens
    amounts[Resource.OUTPUT_TOKENS] = usage.completion_tokens
    amounts[Resource.COST] = price.cost(usage)
    return tuple(amounts)
