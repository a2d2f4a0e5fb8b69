"""Memory of KV blocks that nobody has had yet, asked of the system before it is needed."""

from collections.abc import Callable

from weir_worker.kv.block_pool import BlockPool

# Blocks that are kept ready beyond those that were ever taken.
_READY = 512
# In one go while nothing is to be done; a request that comes then waits for it.
_AT_ONCE = 32


class MemoryAhead:
    """Has blocks touched in the order in which the pool gives them out for the first time.

    A page that is written for the first time stops the thread that writes it. Streams that began
    together begin their blocks together too, each in every layer: more than a thousand pages in
    one step, which all of them would wait for. So it is done before the first request and while
    there is none; in between, memory comes as it is written.

    Args:
        pool: of the cache.
        touch: makes the memory of so many blocks from an index on, without changing it.
    """

    def __init__(self, pool: BlockPool, touch: Callable[[int, int], None]) -> None:
        self._pool = pool
        self._touch = touch
        self._touched = 0
        self._advance(_READY)

    def idle(self) -> None:
        """Touch some blocks, if too few are ready."""
        self._advance(_AT_ONCE)

    def _advance(self, most: int) -> None:
        first = max(self._touched, self._pool.ever_taken)
        wanted = min(len(self._pool.blocks), self._pool.ever_taken + _READY)
        count = min(wanted - first, most)
        if count > 0:
            self._touch(first, count)
            self._touched = first + count
