"""Which prefix blocks a worker can find in its cache."""

from collections.abc import Iterable, Sequence


class PrefixIndex:
    """Bounded set of block hashes, kept by the worker's own events.

    Args:
        capacity: hashes at most; beyond it the oldest are forgotten, which costs a hit
            estimate and nothing else.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._hashes: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, hashes: Iterable[bytes]) -> None:
        """Blocks became findable."""
        for digest in hashes:
            self._hashes[digest] = None
        while len(self._hashes) > self._capacity:
            del self._hashes[next(iter(self._hashes))]

    def remove(self, hashes: Iterable[bytes]) -> None:
        """Blocks are no longer findable."""
        for digest in hashes:
            self._hashes.pop(digest, None)

    def clear(self) -> None:
        """Nothing is known of the cache any more."""
        self._hashes.clear()

    def leading(self, chain: Sequence[bytes]) -> int:
        """How many blocks of a chain are there, from its first on."""
        count = 0
        for digest in chain:
            if digest not in self._hashes:
                break
            count += 1
        return count
