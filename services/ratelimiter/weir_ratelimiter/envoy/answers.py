"""Decisions as Envoy reads them."""

from collections.abc import Mapping

import orjson

from weir.envoy.v3.rate_limit_service_pb2 import HeaderValue, RateLimitResponse
from weir_core.errors import LimitExceeded, Violation, WeirError
from weir_core.errors.openai import header_safe, to_http
from weir_core.errors.refusal import LIMITER_MODE
from weir_ratelimiter.domain.calendar import Unit
from weir_ratelimiter.domain.limit import HELD, Limit
from weir_ratelimiter.limiter import Admission
from weir_ratelimiter.store.base import LimitState

_OK = RateLimitResponse.OK
_OVER = RateLimitResponse.OVER_LIMIT
_MOST = 2**32 - 1
_MODE = "x-ratelimit-mode"
_ENFORCED = "enforced"
_UNITS = {
    1_000: RateLimitResponse.RateLimit.SECOND,
    60_000: RateLimitResponse.RateLimit.MINUTE,
    3_600_000: RateLimitResponse.RateLimit.HOUR,
    86_400_000: RateLimitResponse.RateLimit.DAY,
}
_WINDOWS = {
    Unit.DAY: RateLimitResponse.RateLimit.DAY,
    Unit.MONTH: RateLimitResponse.RateLimit.MONTH,
}

Status = RateLimitResponse.DescriptorStatus


def admitted(admission: Admission, descriptors: int) -> RateLimitResponse:
    """OK, with the tightest of the caller's own limits in each of the statuses."""
    own = [state for state in admission.states if _shown(state)]
    status = Status(code=_OK)
    if own:
        tightest = min(own, key=lambda state: state.remaining / max(1, state.limit.capacity))
        status = Status(
            code=_OK,
            current_limit=_limit(tightest.limit),
            limit_remaining=_units(tightest.remaining),
        )
        status.duration_until_reset.FromMilliseconds(tightest.whole_in_ms)
    mode = "degraded" if admission.degraded else _ENFORCED
    return _response(_OK, status, descriptors, {_MODE: mode})


def passed(descriptors: int) -> RateLimitResponse:
    """OK for a request that no limit was asked about."""
    return _response(_OK, Status(code=_OK), descriptors, {})


def refused(
    error: WeirError, limits: Mapping[str, Limit], now_ms: int, descriptors: int
) -> RateLimitResponse:
    """OVER_LIMIT, with the limit that takes longest, and the body and headers of a 429.

    Args:
        error: the refusal; limits whose numbers are not the caller's own stay nameless.
        limits: those that apply, by key.
        now_ms: Unix milliseconds.
        descriptors: how many were asked about.
    """
    status = Status(code=_OVER)
    if isinstance(error, LimitExceeded) and error.binding is not None:
        _tell(status, error.binding, limits, now_ms)
    _, body, headers = to_http(error)
    headers |= {
        "content-type": "application/json",
        _MODE: error.metadata.get(LIMITER_MODE, _ENFORCED),
    }
    response = _response(_OVER, status, descriptors, headers)
    response.raw_body = orjson.dumps(body)
    return response


def _tell(status: Status, binding: Violation, limits: Mapping[str, Limit], now_ms: int) -> None:
    if binding.reset_time_ms:
        status.duration_until_reset.FromMilliseconds(max(0, binding.reset_time_ms - now_ms))
    limit = limits.get(binding.limit_id)
    if limit is not None and binding.limit is not None and binding.used is not None:
        status.current_limit.CopyFrom(_limit(limit))
        status.limit_remaining = _units(binding.limit - binding.used)


def _shown(state: LimitState) -> bool:
    limit = state.limit
    return limit.kind not in HELD and limit.numbers_are_own and not limit.shadow


def _limit(limit: Limit) -> RateLimitResponse.RateLimit:
    return RateLimitResponse.RateLimit(
        name=limit.key, requests_per_unit=_units(limit.capacity), unit=_unit(limit)
    )


def _unit(limit: Limit) -> RateLimitResponse.RateLimit.Unit.ValueType:
    """The period of a limit; UNKNOWN where the capacity is a burst, not what a period brings."""
    if limit.calendar is not None:
        return _WINDOWS[limit.calendar.unit]
    if limit.shape.refill != limit.capacity:
        return RateLimitResponse.RateLimit.UNKNOWN
    return _UNITS.get(limit.shape.period_ms, RateLimitResponse.RateLimit.UNKNOWN)


def _units(amount: int) -> int:
    return min(max(0, amount), _MOST)


def _response(
    code: RateLimitResponse.Code.ValueType,
    status: Status,
    descriptors: int,
    headers: Mapping[str, str],
) -> RateLimitResponse:
    return RateLimitResponse(
        overall_code=code,
        statuses=[status] * descriptors,
        response_headers_to_add=[
            HeaderValue(key=name, value=header_safe(value)) for name, value in headers.items()
        ],
    )
