"""An idempotency key where it counts, and the request that it stands for."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.shape import Shape

MAX_LENGTH = 255


@dataclass(frozen=True, slots=True)
class ScopedKey:
    """A key and the request that was sent with it.

    Attributes:
        tenant_id: another tenant's equal key is another key.
        route: path or method; so is an equal key of another route.
        key: as the client chose it, 1 to 255 printable ASCII characters.
        fingerprint: SHA-256 of user, models of the API key, and request; an equal key with another
            one is a conflict.
        field: what the door calls the key, for errors.
    """

    tenant_id: str
    route: str
    key: str
    fingerprint: bytes
    field: str


def scoped_key(caller: Caller, route: str, key: str, payload: bytes, *, field: str) -> ScopedKey:
    """The key of one request; `payload` is its canonical form.

    Raises:
        InvalidField: the key is empty, too long, or not printable ASCII.
    """
    if not key or len(key) > MAX_LENGTH or not all(" " <= char <= "~" for char in key):
        raise InvalidField(field, Shape(key), f"1 to {MAX_LENGTH} printable ASCII characters")
    # So that no API key replays the answer of a model that it is not for.
    digest = hashlib.sha256(json.dumps([caller.user_id, *sorted(caller.key_models)]).encode())
    digest.update(b"\0")
    digest.update(payload)
    return ScopedKey(caller.tenant_id, route, key, digest.digest(), field)


def canonical_json(body: dict[str, Any]) -> bytes:
    """One form for all bodies that mean the same: sorted keys, no white space.

    Raises:
        WeirError: INVALID_FIELD on `body`: it is nested too deeply.
    """
    try:
        text = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise WeirError(
            Reason.INVALID_FIELD,
            "the request body cannot be read: it is nested too deeply",
            field="body",
        ) from None
    return text.encode()
