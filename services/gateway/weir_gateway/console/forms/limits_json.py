"""Where limits stand, tightest first, as the tenant pages get them."""

from typing import Any

from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainResponse,
    LimiterMode,
    LimitStatus,
)
from weir_core.errors.refusal import unit_of
from weir_gateway.console.forms.moments import moment


def limits_json(told: ExplainResponse, *, for_admin: bool) -> dict[str, Any]:
    """Every limit of a subject; shadow limits, which refuse nobody, are the operator's alone."""
    shown = [one for one in told.limits if for_admin or not one.shadow]
    binding = binding_of(shown)
    ordered = sorted(shown, key=lambda one: (one is not binding, -(used_share(one) or 0.0)))
    degraded = told.limiter_mode == LimiterMode.LIMITER_MODE_DEGRADED
    return {
        "mode": "degraded" if degraded else "enforced",
        "binding": binding.limit_id if binding is not None else None,
        "limits": [_limit_json(one, binding=one is binding) for one in ordered],
    }


def binding_of(limits: list[LimitStatus]) -> LimitStatus | None:
    """The limit that refuses first as things are: that of which the largest part is used.

    None while nothing is used. A bound on one request is not used up, and binds nobody here.
    """
    refusing = [one for one in limits if not one.shadow and one.limit_type != "context"]
    tightest = max(refusing, key=lambda one: used_share(one) or 0.0, default=None)
    return tightest if tightest is not None and used_share(tightest) else None


def used_share(limit: LimitStatus) -> float | None:
    """Part of a limit that is used or held, above 1 in debt; None when it is not known."""
    used = used_units(limit)
    if used is None:
        return None
    if limit.limit <= 0:
        # It refuses everything.
        return 1.0
    return used / limit.limit


def used_units(limit: LimitStatus) -> int | None:
    """Units that are used or held; None when the numbers are not the caller's, or none."""
    if not (limit.HasField("limit") and limit.HasField("remaining")):
        return None
    return limit.limit - limit.remaining


def _limit_json(limit: LimitStatus, *, binding: bool) -> dict[str, Any]:
    def number(name: str) -> int | None:
        return getattr(limit, name) if limit.HasField(name) else None  # type: ignore[arg-type]

    return {
        "id": limit.limit_id,
        "layer": limit.layer,
        "limit_type": limit.limit_type,
        "resource": limit.resource,
        "unit": unit_of(limit.resource),
        "limit": number("limit"),
        "remaining": number("remaining"),
        "held": number("held"),
        "used": used_units(limit),
        "used_share": used_share(limit),
        "used_last_minute": number("used_last_minute"),
        "reset_time": moment(limit, "reset_time"),
        "window": limit.window or None,
        "shadow": limit.shadow,
        "binding": binding,
    }
