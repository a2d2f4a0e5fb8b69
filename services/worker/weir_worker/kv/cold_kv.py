"""KV that was copied out of the cache."""

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class ColdKv:
    """Blocks in order; of use to who holds this object and nobody else.

    Attributes:
        slots: their places in the store; empty once dropped.
    """

    slots: list[int] = field(repr=False)
