"""How deltas of the directory call objects."""

from typing import Any


def object_id(entry: Any) -> str:
    """What a delta calls an object by: `name` of models, `tenant/id` of users, else `id`."""
    kind = entry.DESCRIPTOR.name
    if kind == "Model":
        return str(entry.name)
    return f"{entry.tenant_id}/{entry.id}" if kind == "User" else str(entry.id)
