"""Lists in OpenAI's shape."""

from collections.abc import Sequence
from typing import Any


def list_json(found: Sequence[dict[str, Any]], limit: int) -> dict[str, Any]:
    """At most `limit` objects of a list; there are more if there is one more in `found`."""
    shown = list(found[:limit])
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(found) > limit,
    }
