"""Secrets and signatures of webhooks, after Standard Webhooks 1.0.0 (standardwebhooks.com)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

_PREFIX = "whsec_"
_BYTES = 32


def new_secret() -> str:
    """A secret: `whsec_` and 256 random bits in base64."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def sign(message_id: str, unix_s: int, body: bytes, keys: Sequence[str]) -> str:
    """The value of `webhook-signature`: one `v1` signature a secret, separated by spaces."""
    signed = f"{message_id}.{unix_s}.".encode() + body
    return " ".join(f"v1,{_signature(signed, key)}" for key in keys)


def _signature(signed: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
