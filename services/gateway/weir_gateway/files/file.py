"""A file of a tenant."""

from dataclasses import dataclass
from enum import StrEnum


class FileState(StrEnum):
    """Only `READY` files are seen by tenants."""

    WRITING = "writing"
    READY = "ready"
    REMOVED = "removed"


class Purpose(StrEnum):
    """What a file is for, in OpenAI's words."""

    BATCH = "batch"
    USER_DATA = "user_data"
    BATCH_OUTPUT = "batch_output"


UPLOADED = (Purpose.BATCH, Purpose.USER_DATA)
"""Purposes that a client may name."""


@dataclass(frozen=True, slots=True)
class File:
    """What is known of a file without its content.

    Attributes:
        id: `file_` and a UUIDv7: ids sort by the time at which writing began.
        tenant_id: its owner.
        name: as the client called it; told, never used as a path.
        purpose: see there; empty while it is unknown.
        size: bytes.
        created_ms: Unix milliseconds.
        expires_ms: Unix milliseconds after which it is removed; 0: it is kept.
    """

    id: str
    tenant_id: str
    name: str
    purpose: str
    size: int
    created_ms: int
    expires_ms: int
