"""Which usage counts towards a limit, and in which unit."""

from collections.abc import Mapping

from weir_ratelimiter.domain.ids import parse_limit_key
from weir_ratelimiter.domain.limit import Layer, Limit, Resource
from weir_ratelimiter.ledger.sums import Sums

_OWNER_COLUMNS = {
    Layer.CLUSTER: (),
    Layer.TENANT: ("tenant_id",),
    Layer.USER: ("tenant_id", "user_id"),
    Layer.API_KEY: ("api_key_id",),
    Layer.MODEL: ("model",),
}


def owned_by(limit: Limit) -> Mapping[str, str]:
    """Values of columns that rows have which count towards a limit."""
    _, owner, _ = parse_limit_key(limit.key)
    where = dict(zip(_OWNER_COLUMNS[limit.layer], owner, strict=True))
    if limit.model:
        where["model"] = limit.model
    return where


def units_of(resource: Resource, sums: Sums) -> int:
    """What usage comes to in units of a resource.

    Raises:
        ValueError: the resource is held, not used up, such as concurrency.
    """
    match resource:
        case Resource.REQUESTS:
            return sums.requests
        case Resource.TOKENS:
            return sums.prompt_tokens + sums.completion_tokens
        case Resource.INPUT_TOKENS:
            return sums.prompt_tokens
        case Resource.OUTPUT_TOKENS:
            return sums.completion_tokens
        case Resource.COST:
            return sums.amount_nanos
        case _:
            raise ValueError(f"{resource.name} is not used up")
