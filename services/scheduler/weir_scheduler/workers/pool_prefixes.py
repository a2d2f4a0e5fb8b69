"""Which prefix blocks any worker of a model can find in its cache."""

from collections import deque
from collections.abc import Sequence

from weir_core.prefix_hash import PREFIX_GRANULARITY

_REMEMBERED = 65_536


class PoolPrefixes:
    """Which workers hold each block, kept by the workers' `PrefixIndex`.

    Caches give up the ends of their chains first, so the blocks that lead a chain here lead it
    on one worker too, but for what is being evicted at the moment.

    Args:
        granularity: tokens of a block.
    """

    def __init__(self, granularity: int = PREFIX_GRANULARITY) -> None:
        self.granularity = granularity
        # A name alone while there is one holder: most blocks have one, and a set costs 200 bytes.
        self._holders: dict[bytes, str | set[str]] = {}
        self._gained: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._count = 0

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, digest: bytes, worker_id: str) -> None:
        """One more worker can find a block."""
        holders = self._holders.get(digest)
        if holders is None:
            self._holders[digest] = worker_id
            self._gained.append(digest)
            self._count += 1
        elif isinstance(holders, set):
            holders.add(worker_id)
        else:
            self._holders[digest] = {holders, worker_id}

    def remove(self, digest: bytes, worker_id: str) -> None:
        """A worker can find it no longer. Raises KeyError when it could not."""
        holders = self._holders[digest]
        if not isinstance(holders, set):
            if holders != worker_id:
                raise KeyError(digest)
            del self._holders[digest]
            return
        holders.remove(worker_id)
        if len(holders) == 1:
            self._holders[digest] = holders.pop()

    def holders(self, chain: Sequence[bytes], most: int) -> list[str]:
        """At most so many workers that hold the begin of a chain, the longest begin first.

        O(blocks of the chain + most).
        """
        found: dict[str, None] = {}
        for at in range(self.leading(chain) - 1, -1, -1):
            holders = self._holders[chain[at]]
            for worker_id in holders if isinstance(holders, set) else (holders,):
                found[worker_id] = None
                if len(found) >= most:
                    return list(found)
        return list(found)

    def leading(self, chain: Sequence[bytes], known: int = 0) -> int:
        """How many blocks of a chain some worker holds, from its first on.

        `known`: the first so many need not be looked up.
        """
        count = known
        while count < len(chain) and chain[count] in self._holders:
            count += 1
        return count

    def cached_tokens(self, chain: Sequence[bytes], prompt_tokens: int) -> int:
        """Prompt tokens that need not be computed; the last one always is."""
        return min(self.leading(chain) * self.granularity, prompt_tokens - 1)

    def gained_since(self, cursor: int, limit: int) -> tuple[list[bytes], int]:
        """Blocks that became findable after a reading, oldest first, and the new cursor.

        The cursor of the first reading is 0. What was gained more than 65,536 blocks ago is
        left out: the estimates of those that wait for it stay low, and nothing else.
        """
        oldest = self._count - len(self._gained)
        begin = max(cursor, oldest)
        end = min(self._count, begin + limit)
        return [self._gained[i - oldest] for i in range(begin, end)], end
