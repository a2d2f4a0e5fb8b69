"""What Envoy says of one request, as an ask of the token account."""

from uuid import uuid4

from weir.envoy.v3.rate_limit_service_pb2 import RateLimitDescriptor, RateLimitRequest
from weir_core.bucket import check_units
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.domain.subject import Subject, check_id

_KEYS = ("tenant", "user", "api_key", "model", "tokens")
_LONGEST_NUMBER = 16


def ask_from(request: RateLimitRequest) -> Ask:
    """The ask of one call; its descriptors together describe one request of one caller.

    Raises:
        InvalidField: an entry is unknown or malformed, or two descriptors contradict each other.
        WeirError: NOT_FOUND if none of them names a tenant.
    """
    facts = _facts(request)
    if not facts.get("tenant"):
        raise WeirError(
            Reason.NOT_FOUND,
            "no descriptor names a tenant; add an action with the descriptor key `tenant`",
            field="descriptors",
        )
    tokens = facts.pop("tokens", "")
    who = {key: check_id(f"descriptors.{key}", value) for key, value in facts.items() if value}
    return Ask(
        request_id=f"envoy-{uuid4().hex}",
        subject=Subject(
            who["tenant"], who.get("user", ""), who.get("api_key", ""), who.get("model", "")
        ),
        prompt_tokens=_number(tokens) if tokens else 0,
        max_new_tokens=0,
        requests=_requests(request),
        at_once=True,
    )


def _facts(request: RateLimitRequest) -> dict[str, str]:
    facts: dict[str, str] = {}
    for index, descriptor in enumerate(request.descriptors):
        where = f"descriptors[{index}]"
        if descriptor.HasField("limit"):
            bound = "absent: limits come from the directory; remove `limit` from the action"
            raise InvalidField(f"{where}.limit", descriptor.limit.requests_per_unit, bound)
        for entry in descriptor.entries:
            if entry.key not in _KEYS:
                bound = f"one of {', '.join(_KEYS)}"
                raise InvalidField(f"{where}.entries.key", entry.key, bound)
            if facts.setdefault(entry.key, entry.value) != entry.value:
                bound = "the same in every descriptor: one call is about one request"
                raise InvalidField(f"{where}.{entry.key}", entry.value, bound)
    return facts


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise InvalidField("descriptors.tokens", text, "a whole number of tokens")
    return check_units("descriptors.tokens", int(text))


def _requests(request: RateLimitRequest) -> int:
    counts = {_hits(descriptor, request) for descriptor in request.descriptors}
    if len(counts) > 1:
        bound = "the same in every descriptor: one call is about one request"
        raise InvalidField("descriptors.hits_addend", sorted(counts), bound)
    return check_units("descriptors.hits_addend", counts.pop())


def _hits(descriptor: RateLimitDescriptor, request: RateLimitRequest) -> int:
    if descriptor.HasField("hits_addend"):
        return descriptor.hits_addend.value
    return request.hits_addend or 1
