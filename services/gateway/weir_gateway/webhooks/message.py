"""A webhook on its way."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """One event for one URL.

    Attributes:
        id: the receiver's key to tell repeats; the same in every attempt.
        body: the JSON that is sent and signed.
        attempts: those made, the present one included.
        secrets: that sign it, the newest first; none if they cannot be decrypted.
    """

    id: str
    tenant_id: str
    url: str
    body: bytes
    attempts: int
    secrets: tuple[str, ...]
