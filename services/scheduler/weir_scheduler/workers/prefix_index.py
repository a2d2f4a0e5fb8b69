"""Which prefix blocks a worker can find in its cache."""

from collections.abc import Iterable, Sequence

from weir_scheduler.workers.pool_prefixes import PoolPrefixes


class PrefixIndex:
    """Bounded set of block hashes, kept by the worker's own events.

    Args:
        capacity: hashes at most; beyond it the oldest are forgotten, which costs a hit
            estimate and nothing else.
        worker_id: whose cache it is.
    """

    def __init__(self, capacity: int, worker_id: str = "") -> None:
        self._capacity = max(1, capacity)
        self._worker_id = worker_id
        self._hashes: dict[bytes, None] = {}
        self._pool: PoolPrefixes | None = None

    def __len__(self) -> int:
        return len(self._hashes)

    def join(self, pool: PoolPrefixes | None) -> None:
        """From now on what is findable here is findable in that pool; None for in none."""
        if self._pool is pool:
            return
        known = list(self._hashes)
        self.clear()
        self._pool = pool
        self.add(known)

    def add(self, hashes: Iterable[bytes]) -> None:
        """Blocks became findable."""
        for digest in hashes:
            if digest not in self._hashes and self._pool is not None:
                self._pool.add(digest, self._worker_id)
            self._hashes[digest] = None
        while len(self._hashes) > self._capacity:
            self.remove([next(iter(self._hashes))])

    def remove(self, hashes: Iterable[bytes]) -> None:
        """Blocks are no longer findable."""
        for digest in hashes:
            if digest in self._hashes:
                del self._hashes[digest]
                if self._pool is not None:
                    self._pool.remove(digest, self._worker_id)

    def clear(self) -> None:
        """Nothing is known of the cache any more."""
        self.remove(list(self._hashes))

    def leading(self, chain: Sequence[bytes]) -> int:
        """How many blocks of a chain are there, from its first on."""
        count = 0
        for digest in chain:
            if digest not in self._hashes:
                break
            count += 1
        return count
