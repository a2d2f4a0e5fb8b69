"""The one account of a refusal by limits: its reason, its sentences, its time.

Whoever refuses says what did not fit as violations; everything that people and programs read
is made of them here, so that all doors and services tell the same.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from weir_core.errors.exceptions import LimitExceeded, Violation
from weir_core.errors.reasons import Reason

LIMITER_MODE = "limiter_mode"
"""Key of `WeirError.metadata`; `degraded` while the ratelimiter works on a share of the rates."""

_REASONS = {
    "rps": Reason.RATE_LIMIT_EXCEEDED,
    "tpm": Reason.TOKEN_LIMIT_EXCEEDED,
    "concurrency": Reason.CONCURRENCY_LIMIT_EXCEEDED,
    "budget": Reason.BUDGET_EXHAUSTED,
}
_PERIODS = {1_000: "second", 60_000: "minute", 3_600_000: "hour", 86_400_000: "day"}
_SPOKEN = {
    "concurrency": "requests at once",
    "streams": "streams at once",
    "in_flight_tokens": "tokens in flight",
    "kv_tokens": "tokens of KV cache",
}
_NANOS = Decimal(10**9)


def refused_for_now(
    violations: Sequence[Violation], now_ms: int, *, remedy: str = "retry"
) -> LimitExceeded:
    """The refusal of a request that will fit once all of `violations` have passed.

    It is told by the limit which takes longest: waiting for any other would not be enough.

    Args:
        violations: one or more, each with the time at which it passes.
        now_ms: Unix milliseconds.
        remedy: what will be of use after that time.
    """
    ordered = sorted(violations, key=lambda violation: -violation.reset_time_ms)
    longest = ordered[0]
    wait_s = max(0, longest.reset_time_ms - now_ms) / 1_000
    reason = _REASONS[longest.limit_type]
    if reason is Reason.BUDGET_EXHAUSTED:
        when = f"the next window begins at {rfc3339(longest.reset_time_ms)}"
    else:
        when = f"{remedy} in {wait_s:.3f} s"
    told = "; ".join(map(_sentence, ordered))
    message = f"{told}; {when}; to change: {longest.knob}"
    return LimitExceeded(reason, message, ordered, retry_after_s=wait_s)


def over_context(
    message: str, *, model: str, context: int, requested: int, field: str
) -> LimitExceeded:
    """The refusal of a request that the context of a model is too short for.

    Args:
        message: for a person, with the numbers.
        model: its name.
        context: tokens of prompt and output together.
        requested: tokens, or as many as there are at least.
        field: the request's field to blame.
    """
    knob = f"`max_context` of model {model}"
    violation = Violation(
        limit_id=f"model:{model}/max_context_tokens",
        limit_type="context",
        resource="context_tokens",
        layer="model",
        limit=context,
        used=0,
        requested=requested,
        reset_time_ms=0,
        knob=knob,
    )
    reason = Reason.CONTEXT_LENGTH_EXCEEDED
    told = f"{message}; to change: {knob}"
    return LimitExceeded(reason, told, [violation], retry_after_s=None, field=field)


def requests_per(period_ms: int) -> str:
    """Public name of what a limit of requests counts, such as `requests_per_minute`."""
    return f"requests_per_{_PERIODS.get(period_ms, f'{period_ms}_ms')}"


def unit_of(resource: str) -> str:
    """What the numbers of a limit count: `requests`, `tokens` or `currency_nanos`."""
    if _is_money(resource):
        return "currency_nanos"
    return "tokens" if "tokens" in resource else "requests"


def counted(units: int, resource: str) -> str:
    """An amount of a resource for people; money as a decimal."""
    if not _is_money(resource):
        return str(units)
    text = f"{units / _NANOS:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def spoken(resource: str) -> str:
    """The name of a resource for people: `requests per second`, `requests at once`."""
    return _SPOKEN.get(resource) or resource.replace("_", " ")


def noun_of(resource: str) -> str:
    """What a resource counts, for people, such as `input tokens`; without its period."""
    return spoken(resource).partition(" per ")[0]


def allowance(limit: int, resource: str) -> str:
    """What a limit without a rate allows, such as `2 requests at once`."""
    return f"{counted(limit, resource)} {spoken(resource)}"


def rate_allowance(refill: int, period_ms: int, burst: int, resource: str) -> str:
    """What a limit with a rate allows, such as `2 requests per second, burst 4`.

    Args:
        refill: units that come back in `period_ms`.
        period_ms: milliseconds.
        burst: units that can be used at once.
        resource: public name of what is counted.
    """
    period = _PERIODS.get(period_ms, f"{period_ms} ms")
    rate = f"{counted(refill, resource)} {noun_of(resource)} per {period}"
    return rate if burst == refill else f"{rate}, burst {counted(burst, resource)}"


def rfc3339(unix_ms: int) -> str:
    """A moment as `2026-01-01T00:00:07.000Z`."""
    moment = datetime.fromtimestamp(unix_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _sentence(violation: Violation) -> str:
    resource = violation.resource
    if violation.limit is None or violation.used is None:
        what = f"{spoken(resource)} ({violation.limit_id})"
        return f"{_layer(violation.layer)} is at its limit of {what}"
    used, requested = counted(violation.used, resource), counted(violation.requested, resource)
    allowed = violation.allowance or allowance(violation.limit, resource)
    return f"{violation.limit_id} allows {allowed}; {used} are used and {requested} requested"


def _layer(layer: str) -> str:
    return f"the {layer.replace('_', ' ')}"


def _is_money(resource: str) -> bool:
    return resource.startswith("cost")
