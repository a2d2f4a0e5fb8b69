"""The full account of a refusal: every limit, the time, the knob."""

from collections.abc import Sequence

from weir_core.errors import LimitExceeded, Reason, Violation, refusal
from weir_core.errors.refusal import counted, noun_of
from weir_ratelimiter.domain.limit import Kind, Resource
from weir_ratelimiter.domain.shortfall import Shortfall


def violation(short: Shortfall, now_ms: int) -> Violation:
    """One shortfall as the caller may see it: numbers only of limits that are its own."""
    limit = short.limit
    own = limit.numbers_are_own
    return Violation(
        limit_id=limit.key,
        limit_type=limit.limit_type,
        resource=limit.resource_name,
        layer=limit.layer.label,
        limit=limit.capacity if own else None,
        used=short.used if own else None,
        requested=short.requested,
        reset_time_ms=0 if short.wait_ms is None else now_ms + short.wait_ms,
        knob=limit.knob,
        allowance=limit.allowance if own else "",
    )


def refused_for_now(
    shortfalls: Sequence[Shortfall], now_ms: int, *, remedy: str = "retry"
) -> LimitExceeded:
    """The refusal of a request that will fit once all of `shortfalls` have passed.

    It is told by the limit which takes longest. If there is one that never passes, it is refused
    for ever.
    """
    never = [short for short in shortfalls if short.wait_ms is None]
    if never:
        return refused_for_ever(never, now_ms)
    violations = [violation(short, now_ms) for short in shortfalls]
    return refusal.refused_for_now(violations, now_ms, remedy=remedy)


def refused_for_ever(shortfalls: Sequence[Shortfall], now_ms: int) -> LimitExceeded:
    """The refusal of a request that never fits, whatever the levels: do not retry.

    PERMISSION_DENIED for a limit of 0, else CONTEXT_LENGTH_EXCEEDED, else REQUEST_TOO_LARGE.
    """
    closed = [short for short in shortfalls if short.limit.capacity == 0]
    contexts = [short for short in shortfalls if short.limit.kind is Kind.CONTEXT]
    if closed:
        reason, told = Reason.PERMISSION_DENIED, closed
    elif contexts:
        reason, told = Reason.CONTEXT_LENGTH_EXCEEDED, contexts
    else:
        reason, told = Reason.REQUEST_TOO_LARGE, list(shortfalls)
    others = [short for short in shortfalls if short not in told]
    return LimitExceeded(
        reason,
        "; ".join(_never(short) for short in told),
        [violation(short, now_ms) for short in (*told, *others)],
        retry_after_s=None,
    )


def _never(short: Shortfall) -> str:
    limit = short.limit
    if limit.capacity == 0:
        return f"{limit.key} is 0: no request is allowed; change {limit.knob}"
    if limit.kind is Kind.CONTEXT:
        what = _CONTEXT_WORDS[limit.resource]
        advice = _CONTEXT_ADVICE[limit.resource]
        return (
            f"the request has {short.requested} {what}, over the {limit.capacity} that "
            f"{limit.key} allows; {advice}; to change: {limit.knob}"
        )
    requested = counted(short.requested, limit.resource_name)
    if not limit.numbers_are_own:
        return (
            f"the request needs {requested} {noun_of(limit.resource_name)} at once, more than "
            f"{limit.key} ever holds; send less or change {limit.knob}"
        )
    most = counted(limit.capacity, limit.resource_name)
    return (
        f"the request needs {requested} {noun_of(limit.resource_name)} at once, and {limit.key} "
        f"never holds more than {most}; send less or change {limit.knob}"
    )


_CONTEXT_WORDS = {
    Resource.CONTEXT_TOKENS: "tokens (prompt and max_new_tokens)",
    Resource.PROMPT_TOKENS: "prompt tokens",
    Resource.MAX_NEW_TOKENS: "max_new_tokens",
}

_CONTEXT_ADVICE = {
    Resource.CONTEXT_TOKENS: "shorten the prompt or ask for fewer max_new_tokens",
    Resource.PROMPT_TOKENS: "shorten the prompt",
    Resource.MAX_NEW_TOKENS: "ask for fewer max_new_tokens",
}
