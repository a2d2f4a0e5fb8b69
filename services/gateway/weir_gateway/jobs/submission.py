"""What somebody wants to have done offline."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from weir_core.errors import InvalidField
from weir_gateway.intake.generation_request import GenerationRequest

LONGEST_KEY = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job before it is one.

    Attributes:
        kind: the name of its kind.
        body: in the form of the kind.
        parse: reads it; raises WeirError.
        webhook_url: empty for none.
        idempotency_key: empty for none.
    """

    kind: str
    body: bytes
    parse: Callable[[], GenerationRequest]
    webhook_url: str = ""
    idempotency_key: str = ""

    def check_key(self) -> None:
        """Raises InvalidField for a key that cannot be one."""
        key = self.idempotency_key
        if len(key) > LONGEST_KEY or not key.isascii() or not (key.isprintable() or not key):
            raise InvalidField(
                "idempotency_key", key[:LONGEST_KEY], f"up to {LONGEST_KEY} printable ASCII letters"
            )

    @property
    def fingerprint(self) -> bytes:
        """Equal for the same submission alone."""
        digest = hashlib.sha256()
        for part in (self.kind.encode(), self.webhook_url.encode(), self.body):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()
