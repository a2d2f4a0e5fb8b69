"""Which prefix blocks any worker of a model can find in its cache."""

from collections import deque
from collections.abc import Sequence

from weir_core.prefix_hash import PREFIX_GRANULARITY

_REMEMBERED = 65_536


class PoolPrefixes:
    """How many workers hold each block, kept by the workers' `PrefixIndex`.

    Caches give up the ends of their chains first, so the blocks that lead a chain here lead it
    on one worker too, but for what is being evicted at the moment.

    Args:
        granularity: tokens of a block.
    """

    def __init__(self, granularity: int = PREFIX_GRANULARITY) -> None:
        self.granularity = granularity
        self._holders: dict[bytes, int] = {}
        self._gained: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._count = 0

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, digest: bytes) -> None:
        """One more worker can find a block."""
        holders = self._holders.get(digest, 0)
        self._holders[digest] = holders + 1
        if not holders:
            self._gained.append(digest)
            self._count += 1

    def remove(self, digest: bytes) -> None:
        """One worker less can find it. Raises KeyError when none could."""
        holders = self._holders[digest] - 1
        if holders:
            self._holders[digest] = holders
        else:
            del self._holders[digest]

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
