"""A caller's account, told to a person."""

from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.refusal_pb2 import Violation
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainResponse,
    LimiterMode,
    LimitStatus,
)
from weir_cli.output import table
from weir_cli.reservation_text import reservation_text
from weir_cli.spans import clock, span_text
from weir_core.errors.refusal import allowance, counted, spoken

_UNKNOWN = "-"
_HEADS = ("LIMIT", "COUNTS", "OF", "USED", "HELD", "LEFT", "LAST 60 S", "WHOLE AGAIN")
_NUMBERS = (2, 3, 4, 5, 6)
_DEGRADED = (
    "degraded: the shared store is away, and each ratelimiter enforces its share of the limits"
)
_HELD = (
    "HELD is the part of USED that requests which run now have reserved; "
    "what they leave of it is given back when they end"
)


def account_text(response: ExplainResponse, now_ms: int) -> str:
    """What became of the request that was asked about; every limit, and what it allows now.

    Args:
        response: what the ratelimiter said.
        now_ms: Unix milliseconds.
    """
    parts = [limits_text(response.limits, now_ms)]
    if response.limiter_mode == LimiterMode.LIMITER_MODE_DEGRADED:
        parts.insert(0, _DEGRADED)
    advice = [_advice(status, now_ms) for status in response.limits if _is_flow(status)]
    if advice:
        parts.append("\n".join(advice))
    if any(status.HasField("held") for status in response.limits):
        parts.append(_HELD)
    if response.HasField("reservation"):
        parts.insert(0, reservation_text(response.reservation))
    return "\n\n".join(parts)


def decision_text(response: ExplainResponse, now_ms: int) -> str:
    """What would become of the hypothetical request."""
    if response.admissible:
        return "admitted"
    lines = ["refused:"]
    lines += [f"  {_violation(violation, now_ms)}" for violation in response.refusal.violations]
    return "\n".join(lines)


def limits_text(statuses: Sequence[LimitStatus], now_ms: int) -> str:
    """A table of limits; `now_ms` is Unix milliseconds."""
    if not statuses:
        return "no limit applies; is the tenant in the directory?"
    return table([_HEADS, *(_row(status, now_ms) for status in statuses)], right=_NUMBERS)


def _row(status: LimitStatus, now_ms: int) -> tuple[str, ...]:
    def number(name: str) -> str:
        known = status.HasField(name)  # type: ignore[arg-type]
        return _amount(getattr(status, name), status) if known else _UNKNOWN

    known = status.HasField("limit") and status.HasField("remaining")
    context = status.limit_type == "context"
    used = _amount(status.limit - status.remaining, status) if known else _UNKNOWN
    return (
        status.limit_id + (" (shadow)" if status.shadow else ""),
        f"{status.resource} {status.window}".strip(),
        number("limit"),
        _UNKNOWN if context else used,
        _UNKNOWN if context else number("held"),
        _UNKNOWN if context else number("remaining"),
        number("used_last_minute"),
        _UNKNOWN if context else _when(status.reset_time, now_ms),
    )


def _advice(status: LimitStatus, now_ms: int) -> str:
    """Such as `tenant:acme/tpm: over the last 60 s 55 of 60 used; 5 now, all 60 in 55 s`."""
    what = status.resource.removesuffix(f"_per_{_period(status)}").replace("_", " ")
    limit, left = _amount(status.limit, status), _amount(max(0, status.remaining), status)
    if status.HasField("used_last_minute"):
        used = _amount(status.used_last_minute, status)
        begin = f"over the last 60 s {used} {what} were used"
    else:
        begin = f"{_amount(status.limit - status.remaining, status)} of {limit} {what} are used"
    if status.remaining >= status.limit:
        return f"{status.limit_id}: {begin}; all {limit} can be used now"
    debt = "" if status.remaining >= 0 else f" ({_amount(-status.remaining, status)} in debt)"
    whole = _when(status.reset_time, now_ms)
    return f"{status.limit_id}: {begin}; {left} can be used now{debt}, {limit} {whole}"


def _period(status: LimitStatus) -> str:
    return status.resource.rpartition("_per_")[2]


def _is_flow(status: LimitStatus) -> bool:
    """Whether it comes back with time, and its numbers are there."""
    numbers = status.HasField("limit") and status.HasField("remaining")
    return numbers and not status.shadow and status.limit_type in ("rps", "tpm", "budget")


def _violation(violation: Violation, now_ms: int) -> str:
    resource = violation.resource
    numbers = f"is at its limit of {spoken(resource)}"
    if violation.HasField("limit") and violation.HasField("used"):
        allowed = violation.allowance or allowance(violation.limit, resource)
        used, requested = counted(violation.used, resource), counted(violation.requested, resource)
        numbers = f"allows {allowed}; {used} used, {requested} requested"
    fits = "never fits"
    if violation.HasField("reset_time"):
        fits = f"fits {_when(violation.reset_time, now_ms)}"
    return f"{violation.limit_id} {numbers}; {fits}; to change: {violation.knob}"


def _amount(units: int, status: LimitStatus) -> str:
    text = counted(units, status.resource)
    return text if status.resource.startswith("cost") else f"{units:,}"


def _when(moment: Timestamp, now_ms: int) -> str:
    """`now`, or `in 41.0 s` with the time of day, UTC."""
    wait_ms = moment.ToMilliseconds() - now_ms
    if moment.ToMilliseconds() == 0 or wait_ms <= 0:
        return "now"
    return f"in {span_text(wait_ms)} ({clock(moment)})"
