"""Which prefixes became findable, and which no longer are, for whoever places requests."""

from collections.abc import Iterable


class PrefixEvents:
    """Net changes since they were last taken; each granule once, however many blocks end it."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, int] = {}
        self._added: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Granules that can be found."""
        return len(self._blocks)

    def __contains__(self, granule: bytes) -> bool:
        return granule in self._blocks

    def publish(self, granules: Iterable[bytes]) -> None:
        """A block that ends these granules can be found."""
        for granule in granules:
            count = self._blocks.get(granule, 0)
            self._blocks[granule] = count + 1
            if not count and self._removed.pop(granule, self) is self:
                self._added[granule] = None

    def unpublish(self, granules: Iterable[bytes]) -> None:
        """A block that ended these granules can be found no longer."""
        for granule in granules:
            count = self._blocks.pop(granule)
            if count > 1:
                self._blocks[granule] = count - 1
            elif self._added.pop(granule, self) is self:
                self._removed[granule] = None

    def take(self) -> tuple[list[bytes], list[bytes]]:
        """What was added and what was removed since the last call."""
        if not self._added and not self._removed:
            return [], []
        added, removed = list(self._added), list(self._removed)
        self._added, self._removed = {}, {}
        return added, removed
