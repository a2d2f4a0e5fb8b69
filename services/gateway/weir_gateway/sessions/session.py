"""A conversation of a tenant whose KV a worker keeps between turns."""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass

from weir_core.errors import InvalidField
from weir_core.ids import new_secret_id

DEFAULT_IDLE_TTL_MS = 900_000
LEAST_IDLE_TTL_MS, MOST_IDLE_TTL_MS = 600_000, 1_800_000
LONGEST_ID = 128
_PREFIX = "ses"
_ID_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session. Times are Unix milliseconds.

    Attributes:
        id: 192 bits that nobody can guess.
        tenant_id: whose it is; nobody else's.
        model: its resolved name.
        conversation_id: the tenant's label; empty for none.
        created_ms, last_use_ms: when it was made, and last used by a request.
        idle_ttl_ms: it ends when it is not used for so long.
        tokens: prompt and answer of the last turn that ended well.
    """

    id: str
    tenant_id: str
    model: str
    conversation_id: str
    created_ms: int
    last_use_ms: int
    idle_ttl_ms: int
    tokens: int = 0

    @property
    def expires_ms(self) -> int:
        """When it ends, unless it is used before."""
        return self.last_use_ms + self.idle_ttl_ms

    def lives(self, now_ms: int) -> bool:
        """Whether it has not ended yet."""
        return now_ms < self.expires_ms


def new_session_id() -> str:
    """The id of a session without a label: 192 random bits."""
    return new_secret_id(_PREFIX)


def conversation_session_id(secret: bytes, tenant_id: str, model: str, label: str) -> str:
    """The id of the session of a tenant's label and a model: the same on every gateway.

    HMAC-SHA256 (RFC 2104) under the cluster secret, cut to 192 bits: whoever has not the secret
    can neither guess it nor make one that meets another's.
    """
    message = json.dumps(["weir.session", tenant_id, model, label]).encode()
    digest = hmac.new(secret, message, hashlib.sha256).digest()[:_ID_BYTES]
    return f"{_PREFIX}_{base64.urlsafe_b64encode(digest).decode()}"


def check_idle_ttl_ms(field: str, asked_ms: int) -> int:
    """`asked_ms`, if a session may be idle for so long.

    Raises:
        InvalidField: it is less than 10 or more than 30 minutes.
    """
    if not LEAST_IDLE_TTL_MS <= asked_ms <= MOST_IDLE_TTL_MS:
        least, most = LEAST_IDLE_TTL_MS // 1_000, MOST_IDLE_TTL_MS // 1_000
        raise InvalidField(field, f"{asked_ms / 1_000:g} s", f"from {least} s to {most} s")
    return asked_ms
