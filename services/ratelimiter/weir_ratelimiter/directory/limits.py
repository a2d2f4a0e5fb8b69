"""Limits of the directory, checked and given to their owners."""

from weir.directory.v1 import directory_pb2
from weir_core.bucket import BucketShape
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter.domain.ids import limit_key
from weir_ratelimiter.domain.limit import Kind, Layer, Limit, Resource
from weir_ratelimiter.domain.subject import check_id

_SECOND_MS = 1_000
_MINUTE_MS = 60_000

_COUNTED_BY = {
    Kind.BUCKET: (
        Resource.REQUESTS,
        Resource.TOKENS,
        Resource.INPUT_TOKENS,
        Resource.OUTPUT_TOKENS,
    ),
    Kind.LEASE: (Resource.CONCURRENCY, Resource.STREAMS),
    Kind.CONTEXT: (Resource.CONTEXT_TOKENS, Resource.PROMPT_TOKENS, Resource.MAX_NEW_TOKENS),
}


def to_limit(configured: directory_pb2.Limit, layer: Layer, *owner: str) -> Limit:
    """The limit of one owner, from what is configured.

    Raises:
        InvalidField: a field is out of bounds, named by the limit's key.
        WeirError: NOT_BUILT_YET for a kind that this release does not enforce. A limit that
            would silently do nothing is worse than a refused configuration.
    """
    key = limit_key(layer, owner, check_id("limit.id", configured.id))
    kind = _kind(configured, key)
    resource = _resource(configured, kind, key)
    period_ms = _period_ms(configured, resource)
    return Limit(
        key=key,
        layer=layer,
        kind=kind,
        resource=resource,
        shape=_shape(key, configured.capacity, configured.refill, period_ms),
        knob=f"limit `{configured.id}` of {_owner_name(layer, owner)}",
        model=configured.model,
        shadow=configured.shadow,
        max_debt=configured.max_debt or configured.capacity,
    )


def context_window(model: str, tokens: int) -> Limit:
    """The context window of a model, as a limit."""
    return Limit(
        key=limit_key(Layer.MODEL, (model,), "max_context_tokens"),
        layer=Layer.MODEL,
        kind=Kind.CONTEXT,
        resource=Resource.CONTEXT_TOKENS,
        shape=BucketShape.of(tokens, 0, 1),
        knob=f"`max_context_tokens` of model {model}",
    )


def _kind(configured: directory_pb2.Limit, key: str) -> Kind:
    if configured.kind == directory_pb2.LIMIT_KIND_WINDOW:
        raise WeirError(
            Reason.NOT_BUILT_YET,
            f"{key} is a calendar window, which this release does not enforce; remove it",
        )
    try:
        return Kind(configured.kind)
    except ValueError:
        bound = "BUCKET, LEASE or CONTEXT"
        raise InvalidField(f"{key}.kind", _kind_name(configured.kind), bound) from None


def _resource(configured: directory_pb2.Limit, kind: Kind, key: str) -> Resource:
    allowed = _COUNTED_BY[kind]
    if int(configured.resource) not in allowed:
        names = ", ".join(resource.name for resource in allowed)
        raise InvalidField(
            f"{key}.resource", _resource_name(configured.resource), f"one of {names}"
        )
    return Resource(configured.resource)


def _period_ms(configured: directory_pb2.Limit, resource: Resource) -> int:
    if configured.HasField("period"):
        return configured.period.ToMilliseconds()
    return _SECOND_MS if resource is Resource.REQUESTS else _MINUTE_MS


def _shape(key: str, capacity: int, refill: int, period_ms: int) -> BucketShape:
    try:
        return BucketShape.of(capacity, refill or capacity, period_ms)
    except InvalidField as error:
        raise InvalidField(f"{key}.{error.field}", error.value, error.bound) from error


def _owner_name(layer: Layer, owner: tuple[str, ...]) -> str:
    return f"{layer.label.replace('_', ' ')} {owner[-1]}" if owner else "the cluster"


def _kind_name(number: int) -> str:
    known = directory_pb2.LimitKind.DESCRIPTOR.values_by_number.get(number)
    return known.name.removeprefix("LIMIT_KIND_") if known else str(number)


def _resource_name(number: int) -> str:
    known = directory_pb2.LimitResource.DESCRIPTOR.values_by_number.get(number)
    return known.name.removeprefix("LIMIT_RESOURCE_") if known else str(number)
