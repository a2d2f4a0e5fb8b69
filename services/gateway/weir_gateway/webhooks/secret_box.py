"""Encrypts secrets that lie in the state database, so that a copy of it signs nothing.

A sealed secret is `v1:<key id>:<nonce and AES-256-GCM ciphertext in base64>`, bound to its tenant.
The key is derived from a secret of the deployment (HKDF-SHA256, RFC 5869), and so is its id.
"""

import base64
import binascii
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_VERSION = "v1"
_INFO = b"weir state secrets 1"
_KEY, _ID, _NONCE = 32, 4, 12


class CannotOpen(Exception):
    """A secret was sealed with a key that this process has not, or was altered."""


class SecretBox:
    """Seals with one key, opens with several.

    Args:
        secret: the key is derived from it.
        before: secrets of earlier keys.
    """

    def __init__(self, secret: str, before: Sequence[str] = ()) -> None:
        self._key_id, _ = current = _derived(secret)
        self._ciphers = dict([*map(_derived, before), current])

    def seal(self, tenant_id: str, text: str) -> str:
        """The sealed form of a tenant's secret; of an empty one, nothing."""
        if not text:
            return ""
        nonce = os.urandom(_NONCE)
        sealed = self._ciphers[self._key_id].encrypt(nonce, text.encode(), tenant_id.encode())
        return f"{self.prefix}{base64.b64encode(nonce + sealed).decode()}"

    def open(self, tenant_id: str, stored: str) -> str:
        """The secret; one of an earlier release lies there as it is. Raises CannotOpen."""
        if not stored.startswith(f"{_VERSION}:"):
            return stored
        _, key_id, text = stored.split(":", 2)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise CannotOpen(f"it was encrypted with the key {key_id}")
        try:
            data = base64.b64decode(text, validate=True)
            return cipher.decrypt(data[:_NONCE], data[_NONCE:], tenant_id.encode()).decode()
        except (InvalidTag, binascii.Error, ValueError):
            raise CannotOpen(f"it was altered, or is no secret of the key {key_id}") from None

    @property
    def prefix(self) -> str:
        """With which everything begins that the present key has sealed."""
        return f"{_VERSION}:{self._key_id}:"


def _derived(secret: str) -> tuple[str, AESGCM]:
    kdf = HKDF(algorithm=SHA256(), length=_KEY + _ID, salt=None, info=_INFO)
    made = kdf.derive(secret.encode())
    return made[_KEY:].hex(), AESGCM(made[:_KEY])
