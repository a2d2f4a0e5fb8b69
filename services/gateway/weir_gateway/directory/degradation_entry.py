"""How far a policy lets requests be changed instead of refused, in the directory file."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from weir_gateway.directory.entries import Entry

_LONGEST_WAIT_MS = 600_000


class DegradationEntry(Entry):
    """Bounds of `degradations`; see `weir.directory.v1.DegradationPolicy`."""

    min_new_tokens: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = None
    max_wait_ms: Annotated[int, Field(ge=1, le=_LONGEST_WAIT_MS)] | None = None
    truncate: Literal["none", "head"] | None = None


def fallback_problem(name: str, fallbacks: dict[str, str]) -> str:
    """What is wrong with the chain of models that begins at `name`; empty if nothing is.

    Args:
        name: of a model.
        fallbacks: of every model, empty for none.
    """
    seen: Sequence[str] = [name]
    while fallback := fallbacks[seen[-1]]:
        if fallback not in fallbacks:
            return f"fallback_model: there is no model {fallback!r}" if len(seen) == 1 else ""
        seen = [*seen, fallback]
        if fallback == name:
            return f"its fallback_model leads back to it: {' -> '.join(seen)}"
        if fallback in seen[:-1]:
            return ""
    return ""
