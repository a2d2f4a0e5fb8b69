"""Errors and limits as Anthropic's API tells them."""

from collections.abc import Iterable
from typing import Any

import orjson

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_core.errors.openai import to_http
from weir_core.errors.refusal import rfc3339
from weir_gateway.openai.rate_headers import Standing, standings_of, standings_of_refusal
from weir_gateway.openai.refusal import Refusal

_OVERLOADED = frozenset({Reason.OVERLOADED, Reason.QUEUE_FULL, Reason.QUEUE_TIMEOUT})
_OVERLOADED_STATUS = 529
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    _OVERLOADED_STATUS: "overloaded_error",
}

RawHeaders = list[tuple[bytes, bytes]]


def refusal_of(error: WeirError, request_id: str, now_us: int) -> Refusal:
    """An error in place of an answer."""
    _, _, headers = to_http(error, request_id)
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    encoded.append((b"request-id", headers.get("x-request-id", "").encode()))
    if isinstance(error, LimitExceeded):
        encoded += _limit_headers(standings_of_refusal(error, now_us=now_us), now_us)
    body = error_json(error) | {"request_id": request_id}
    return Refusal(_status(error), orjson.dumps(body), encoded)


def error_json(error: WeirError) -> dict[str, Any]:
    """The body of an error, and the data of an `error` event."""
    message = error.message.encode("utf-8", errors="replace").decode()
    kind = _TYPES.get(_status(error), "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def limit_headers(statuses: Iterable[LimitStatus], now_us: int) -> RawHeaders:
    """`anthropic-ratelimit-*` of an admission."""
    return _limit_headers(standings_of(statuses, now_us=now_us), now_us)


def _status(error: WeirError) -> int:
    return _OVERLOADED_STATUS if error.reason in _OVERLOADED else error.wire.http


def _limit_headers(standings: Iterable[Standing], now_us: int) -> RawHeaders:
    headers: RawHeaders = []
    for standing in standings:
        if standing.family not in ("requests", "tokens"):
            continue
        values = {
            "limit": str(standing.limit),
            "remaining": str(max(0, standing.remaining)),
            "reset": rfc3339(now_us // 1_000 + max(0, standing.reset_ms)),
        }
        headers += [
            (f"anthropic-ratelimit-{standing.family}-{name}".encode(), value.encode())
            for name, value in values.items()
        ]
    return headers
