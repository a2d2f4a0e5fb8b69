"""Limits of the directory, checked, and then given to their owners."""

import msgspec

from weir.directory.v1 import directory_pb2
from weir_core.bucket import BucketShape, check_units
from weir_core.errors import InvalidField
from weir_ratelimiter.domain.calendar import Calendar
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
    Kind.WINDOW: (
        Resource.REQUESTS,
        Resource.TOKENS,
        Resource.INPUT_TOKENS,
        Resource.OUTPUT_TOKENS,
        Resource.COST,
    ),
    Kind.CONTEXT: (Resource.CONTEXT_TOKENS, Resource.PROMPT_TOKENS, Resource.MAX_NEW_TOKENS),
    Kind.HOLD: (Resource.IN_FLIGHT_TOKENS,),
}


class LimitSpec(msgspec.Struct, frozen=True):
    """A checked limit, before it is known whose it is: a plan's belongs to many tenants."""

    id: str
    kind: Kind
    resource: Resource
    shape: BucketShape
    model: str
    shadow: bool
    max_debt: int
    calendar: Calendar | None

    def of(self, layer: Layer, *owner: str, place: str = "") -> Limit:
        """The limit of one owner; `place` is where it is configured, if not with its owner."""
        named = f"{layer.label.replace('_', ' ')} {owner[-1]}" if owner else "the cluster"
        return Limit(
            key=limit_key(layer, owner, self.id),
            layer=layer,
            kind=self.kind,
            resource=self.resource,
            shape=self.shape,
            knob=f"limit `{self.id}` of {place or named}",
            model=self.model,
            shadow=self.shadow,
            max_debt=self.max_debt,
            calendar=self.calendar,
        )


def check_limit(configured: directory_pb2.Limit, where: str) -> LimitSpec:
    """Check a limit of the directory.

    Args:
        configured: as it came.
        where: what it belongs to, for the error, such as `tenant:acme`.

    Raises:
        InvalidField: a field is out of bounds.
    """
    name = f"{where}/{check_id(f'{where}.limits.id', configured.id)}"
    kind = _kind(configured, name)
    resource = _resource(configured, kind, name)
    return LimitSpec(
        id=configured.id,
        kind=kind,
        resource=resource,
        shape=_shape(configured, _period_ms(configured, resource), name),
        model=configured.model,
        shadow=configured.shadow,
        max_debt=_max_debt(configured, kind, name),
        calendar=_calendar(configured, kind, name),
    )


def context_window(model: str, tokens: int) -> Limit:
    """The context window of a model, as a limit."""
    return Limit(
        key=limit_key(Layer.MODEL, (model,), "max_context_tokens"),
        layer=Layer.MODEL,
        kind=Kind.CONTEXT,
        resource=Resource.CONTEXT_TOKENS,
        shape=BucketShape.of(tokens, 0, 1),
        knob=f"`max_context` of model {model}",
    )


def _kind(configured: directory_pb2.Limit, name: str) -> Kind:
    try:
        return Kind(configured.kind)
    except ValueError:
        bound = "BUCKET, LEASE, WINDOW, CONTEXT or HOLD"
        raise InvalidField(f"{name}.kind", _kind_name(configured.kind), bound) from None


def _resource(configured: directory_pb2.Limit, kind: Kind, name: str) -> Resource:
    allowed = _COUNTED_BY[kind]
    if int(configured.resource) not in allowed:
        names = ", ".join(resource.name for resource in allowed)
        raise InvalidField(
            f"{name}.resource", _resource_name(configured.resource), f"one of {names}"
        )
    return Resource(configured.resource)


def _calendar(configured: directory_pb2.Limit, kind: Kind, name: str) -> Calendar | None:
    if kind is Kind.WINDOW:
        return Calendar.of(name, configured.window, configured.time_zone)
    for field in ("window", "time_zone"):
        if value := getattr(configured, field):
            raise InvalidField(f"{name}.{field}", value, "empty: the limit is no calendar window")
    return None


def _period_ms(configured: directory_pb2.Limit, resource: Resource) -> int:
    if configured.HasField("period"):
        return configured.period.ToMilliseconds()
    return _SECOND_MS if resource is Resource.REQUESTS else _MINUTE_MS


def _shape(configured: directory_pb2.Limit, period_ms: int, name: str) -> BucketShape:
    refill = configured.refill or configured.capacity
    try:
        return BucketShape.of(configured.capacity, refill, period_ms)
    except InvalidField as error:
        raise InvalidField(f"{name}.{error.field}", error.value, error.bound) from error


def _max_debt(configured: directory_pb2.Limit, kind: Kind, name: str) -> int:
    """Nobody overdraws a budget unless that is said."""
    default = 0 if kind is Kind.WINDOW else configured.capacity
    return check_units(f"{name}.max_debt", configured.max_debt) or default


def _kind_name(number: int) -> str:
    known = directory_pb2.LimitKind.DESCRIPTOR.values_by_number.get(number)
    return known.name.removeprefix("LIMIT_KIND_") if known else str(number)


def _resource_name(number: int) -> str:
    known = directory_pb2.LimitResource.DESCRIPTOR.values_by_number.get(number)
    return known.name.removeprefix("LIMIT_RESOURCE_") if known else str(number)
