"""What one attempt takes up on its worker."""

from dataclasses import dataclass


@dataclass(slots=True)
class Holding:
    """Share of a worker's bounds.

    Attributes:
        cost: estimated cost, tokens.
        kv_blocks: KV blocks that it needs before it can produce anything.
        kv_blocks_held: of these, allocated as of the last report.
        places: answers that it makes at once.
    """

    cost: int
    kv_blocks: int
    kv_blocks_held: int = 0
    places: int = 1

    @property
    def kv_blocks_due(self) -> int:
        """Blocks that it will still take."""
        return max(0, self.kv_blocks - self.kv_blocks_held)
