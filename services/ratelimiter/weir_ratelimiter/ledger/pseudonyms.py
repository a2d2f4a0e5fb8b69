"""Names that stand for erased ones: the same for the same name, and no way back without the
cluster secret."""

import hashlib
import hmac

import msgspec

_CONTEXT = b"weir.ratelimiter.ledger.pseudonym"
_PREFIX = "erased_"
_HEX_DIGITS = 32


class Pseudonyms:
    """Pseudonyms under one cluster secret (HMAC-SHA256, RFC 2104)."""

    def __init__(self, secret: bytes) -> None:
        self._mac = hmac.new(secret, _CONTEXT, hashlib.sha256)

    def of(self, field: str, *names: str) -> str:
        """Pseudonym of a name in a field; an empty name stays empty.

        Args:
            field: such as `user_id`: equal names in two fields get two pseudonyms.
            names: the name last, before it what it is unique in.
        """
        if not names[-1]:
            return ""
        mac = self._mac.copy()
        mac.update(msgspec.msgpack.encode((field, *names)))
        return _PREFIX + mac.hexdigest()[:_HEX_DIGITS]

    def tenant(self, tenant_id: str) -> str:
        """Pseudonym of a tenant."""
        return self.of("tenant_id", tenant_id)
