"""Domain exceptions as HTTP answers that every OpenAI SDK understands."""

import math

from weir_core.errors.exceptions import LimitExceeded, Violation, WeirError
from weir_core.errors.refusal import rfc3339, unit_of
from weir_core.errors.retry import is_futile

ErrorBody = dict[str, dict[str, object]]


def to_http(exc: WeirError, request_id: str = "") -> tuple[int, ErrorBody, dict[str, str]]:
    """HTTP status, JSON body and headers of an exception.

    The body is `{"error": {message, type, param, code}}`; a limit adds what
    `limit_fields` has of the binding one.
    Header values are printable ASCII.
    """
    return exc.wire.http, to_body(exc), _headers(exc, request_id)


def to_body(exc: WeirError) -> ErrorBody:
    """The JSON body alone; also the last event of a stream that failed half-way."""
    error: dict[str, object] = {
        "message": _encodable(exc.message),
        "type": exc.wire.type,
        "param": None if exc.field is None else _encodable(exc.field),
        "code": exc.wire.code,
        # Beside OpenAI's own: several reasons share a code.
        "reason": exc.reason.value,
    }
    if isinstance(exc, LimitExceeded) and exc.binding is not None:
        error.update(limit_fields(exc.binding))
    return {"error": error}


def limit_fields(violation: Violation) -> dict[str, object]:
    """`limit_type`, `limit_id`, `reset_time` (RFC 3339, null if never), `limit`, `used` and
    `requested` in `unit`, `layer`, `resource` and `knob`.
    """
    reset_ms = violation.reset_time_ms
    return {
        "limit_type": violation.limit_type,
        "limit_id": violation.limit_id,
        "reset_time": rfc3339(reset_ms) if reset_ms else None,
        "limit": violation.limit,
        "used": violation.used,
        "requested": violation.requested,
        "unit": unit_of(violation.resource),
        "layer": violation.layer,
        "resource": violation.resource,
        "knob": violation.knob,
    }


def header_safe(value: str) -> str:
    """`value` as a header value: what is not printable ASCII is percent-encoded as UTF-8."""
    return "".join(
        char if " " <= char <= "~" else "".join(f"%{byte:02X}" for byte in _utf8(char))
        for char in value
    )


def _encodable(text: str) -> str:
    """`text` with `?` for lone surrogates: an error must not fail for what it quotes."""
    return text.encode("utf-8", errors="replace").decode()


def _utf8(char: str) -> bytes:
    return char.encode("utf-8", errors="replace")


def _headers(exc: WeirError, request_id: str) -> dict[str, str]:
    headers = {"x-request-id": header_safe(request_id)} if request_id else {}
    if is_futile(exc):
        headers["x-should-retry"] = "false"
    elif exc.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(exc.retry_after_s)))
        headers["retry-after-ms"] = str(max(1, math.ceil(exc.retry_after_s * 1_000)))
        headers["x-should-retry"] = "true"
    return headers
