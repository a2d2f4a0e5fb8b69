"""A caller's account, told to a person."""

from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.refusal_pb2 import Violation
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainResponse,
    LimiterMode,
    LimitStatus,
    Reservation,
    ReservationState,
)
from weir_cli.output import table
from weir_core.errors.refusal import counted

_UNKNOWN = "-"
_HEADS = ("LIMIT", "COUNTS", "OF", "USED", "HELD", "LEFT", "LAST 60 S", "WHOLE AGAIN")
_NUMBERS = (2, 3, 4, 5, 6)
_DEGRADED = (
    "degraded: the shared store is away, and each ratelimiter enforces its share of the limits"
)


def account_text(response: ExplainResponse, now_ms: int) -> str:
    """Every limit, what it allows now, and what was asked about.

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
    if response.HasField("reservation"):
        parts.append(_reservation(response.reservation))
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
    if violation.HasField("limit") and violation.HasField("used"):
        amounts = (violation.limit, violation.used, violation.requested)
        limit, used, requested = (counted(amount, violation.resource) for amount in amounts)
        numbers = f"allows {limit} {violation.resource}, {used} used, {requested} requested"
    else:
        numbers = f"is at its limit of {violation.resource}"
    fits = "never fits"
    if violation.HasField("reset_time"):
        fits = f"fits {_when(violation.reset_time, now_ms)}"
    return f"{violation.limit_id} {numbers}; {fits}; to change: {violation.knob}"


def _reservation(reservation: Reservation) -> str:
    state = ReservationState.Name(reservation.state).removeprefix("RESERVATION_STATE_")
    lines = [
        f"reservation {reservation.reservation_id} of request {reservation.request_id}: {state}",
        f"  model {reservation.subject.model}, user {reservation.subject.user_id or _UNKNOWN}, "
        f"key {reservation.subject.api_key_id or _UNKNOWN}",
        f"  reserved {reservation.reserved_prompt_tokens} prompt + "
        f"{reservation.reserved_output_tokens} output tokens at {_clock(reservation.create_time)}",
        f"  {reservation.progress_output_tokens} output tokens reported so far",
    ]
    if reservation.HasField("settlement"):
        charged = reservation.settlement.charged
        lines[-1] = (
            f"  charged {charged.prompt_tokens} prompt ({charged.cached_prompt_tokens} cached) + "
            f"{charged.completion_tokens} output tokens "
            f"at {_clock(reservation.settlement.settle_time)}"
        )
    else:
        lines.append(f"  its lease ends at {_clock(reservation.expire_time)}")
    return "\n".join(lines)


def _amount(units: int, status: LimitStatus) -> str:
    text = counted(units, status.resource)
    return text if status.resource.startswith("cost") else f"{units:,}"


def _when(moment: Timestamp, now_ms: int) -> str:
    """`now`, or `in 41 s` with the time of day, UTC."""
    wait_ms = moment.ToMilliseconds() - now_ms
    if moment.ToMilliseconds() == 0 or wait_ms <= 0:
        return "now"
    return f"in {wait_ms / 1_000:,.1f} s ({_clock(moment)})"


def _clock(moment: Timestamp) -> str:
    when = datetime.fromtimestamp(moment.ToMilliseconds() / 1_000, UTC)
    return f"{when:%Y-%m-%d %H:%M:%SZ}"
