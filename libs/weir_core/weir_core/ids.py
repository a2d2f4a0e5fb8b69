"""Identifiers: time-ordered request ids, and what a caller's own id may look like."""

import re
import secrets

from weir_core.clock import Clock
from weir_core.errors import InvalidField

_CALLER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)
_CALLER_ID_BOUND = "1 to 128 characters of A-Z a-z 0-9 . _ : - starting with a letter or digit"


def uuid7_hex(now_us: int) -> str:
    """A version 7 UUID (RFC 9562, 5.7) as 32 hex digits; sorts by its millisecond."""
    value = ((now_us // 1_000) & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76
    value |= secrets.randbits(12) << 64
    value |= 0b10 << 62
    value |= secrets.randbits(62)
    return f"{value:032x}"


def new_id(prefix: str, clock: Clock) -> str:
    """`<prefix>_<uuid7>`, such as `res_0192...`: unique, ordered by time, not secret."""
    return f"{prefix}_{uuid7_hex(clock.now_us())}"


def new_request_id(clock: Clock) -> str:
    """A request id, `req_` and 32 hex digits."""
    return new_id("req", clock)


def new_secret_id(prefix: str) -> str:
    """`<prefix>_` and 192 random bits in base64url: an id that nobody can guess."""
    return f"{prefix}_{secrets.token_urlsafe(24)}"


def is_caller_id(value: str) -> bool:
    """Whether `value` may be an id at all: 1 to 128 characters of `A-Za-z0-9._:-`."""
    return _CALLER_ID.fullmatch(value) is not None


def check_id(field: str, value: str) -> str:
    """Returns an id that a caller sent, unchanged.

    Safe afterwards as a header value, a metadata value, a key and a label.
    Raises InvalidField when it is not 1 to 128 characters of `A-Za-z0-9._:-`.
    """
    if not is_caller_id(value):
        raise InvalidField(field, value, _CALLER_ID_BOUND)
    return value
