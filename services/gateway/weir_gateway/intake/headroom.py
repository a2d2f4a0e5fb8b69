"""How many output tokens a request may get when its client named no number."""

from collections.abc import Iterator

from weir.directory.v1.directory_pb2 import Limit, LimitKind, LimitResource
from weir_core.directory import DirectoryIndex
from weir_gateway.caller.caller import Caller


def default_max_new_tokens(
    index: DirectoryIndex,
    caller: Caller,
    *,
    model: str,
    prompt_tokens: int,
    wanted: int,
    context: int,
    choices: int = 1,
) -> int:
    """The default of the model, cut to what context and limits could ever admit; 1 or more.

    It is that of each of `choices` answers, which limits count together.

    Otherwise a tenant with a small bucket or budget would have every request refused that
    relies on the default.
    """
    most = min(wanted, context - prompt_tokens)
    for limit in _limits(index, caller, model):
        room = _room(limit, prompt_tokens)
        if room is not None:
            most = min(most, room // choices)
    quota = caller.policy.kv.max_tokens
    if quota:
        # The last token is sampled and needs no place.
        most = min(most, quota + 1 - prompt_tokens)
    return max(1, most)


def _limits(index: DirectoryIndex, caller: Caller, model: str) -> Iterator[Limit]:
    for scoped in (
        *index.cluster_limits,
        *index.tenant_limits(caller.tenant_id),
        *index.user_limits(caller.tenant_id, caller.user_id),
        *index.key_limits(caller.key_id),
        *index.model_limits(model),
    ):
        if scoped.limit.model in ("", model) and not scoped.limit.shadow:
            yield scoped.limit


def _room(limit: Limit, prompt_tokens: int) -> int | None:
    counted = limit.kind in (LimitKind.LIMIT_KIND_BUCKET, LimitKind.LIMIT_KIND_WINDOW)
    context = limit.kind == LimitKind.LIMIT_KIND_CONTEXT
    resource = limit.resource
    if resource == LimitResource.LIMIT_RESOURCE_IN_FLIGHT_TOKENS:
        return limit.capacity - prompt_tokens
    if counted and resource == LimitResource.LIMIT_RESOURCE_TOKENS:
        return limit.capacity - prompt_tokens
    if counted and resource == LimitResource.LIMIT_RESOURCE_OUTPUT_TOKENS:
        return limit.capacity
    if context and resource == LimitResource.LIMIT_RESOURCE_CONTEXT_TOKENS:
        return limit.capacity - prompt_tokens
    if context and resource == LimitResource.LIMIT_RESOURCE_MAX_NEW_TOKENS:
        return limit.capacity
    return None
