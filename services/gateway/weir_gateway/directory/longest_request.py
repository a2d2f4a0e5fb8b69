"""How long requests can be that meet a limit."""

from collections.abc import Iterable, Iterator, Sequence

from weir_gateway.directory.document import Document, ModelEntry
from weir_gateway.directory.entries import LimitEntry
from weir_gateway.directory.inheritance import limits_of_tenant
from weir_gateway.directory.owner import CLUSTER, Owner, owner_of


def longest_request(model: ModelEntry, limits: Iterable[LimitEntry]) -> int:
    """Tokens, prompt and output, of the longest request to a model that `limits` let through."""
    bounds = [
        limit.limit
        for limit in (*model.limits, *limits)
        if limit.resource == "context_tokens"
        and not limit.shadow
        and limit.limit is not None
        and limit.model in (None, model.name)
    ]
    return min([model.max_context, *bounds])


def owners_with_bounds(
    document: Document,
) -> Iterator[tuple[Owner, Sequence[LimitEntry], Sequence[LimitEntry]]]:
    """As `owners_of_limits`, with all limits that each request under those of the owner meets.

    Args:
        document: checked: the plan of each tenant and the user of each key are there.
    """
    everyones = document.cluster.limits
    yield CLUSTER, everyones, everyones
    for plan in document.plans:
        yield owner_of("plan", plan.id), plan.limits, (*everyones, *plan.limits)
    for model in document.models:
        yield owner_of("model", model.name), model.limits, everyones
    for tenant in document.tenants:
        owner = owner_of("tenant", tenant.id)
        of_tenant = (*everyones, *limits_of_tenant(tenant, document))
        yield owner, tenant.limits, of_tenant
        users = {user.id: user.limits for user in tenant.users}
        for user in tenant.users:
            yield owner.within("user", user.id), user.limits, (*of_tenant, *user.limits)
        for key in tenant.keys:
            bounds = (*of_tenant, *users[key.user], *key.limits)
            yield owner.within("key", key.id), key.limits, bounds
