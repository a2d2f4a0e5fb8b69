"""Priority queue with removal and re-keying of any item."""

import heapq
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")

_COMPACT_FROM = 64


class KeyedHeap(Generic[K]):
    """Items by key, smallest first; equal keys in order of insertion.

    Every operation is O(log n) amortised: removal leaves a dead node behind, and the heap is
    rebuilt when more than half of its nodes are dead (so memory stays O(live items)).
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[Any, int, K]] = []
        self._live: dict[K, tuple[Any, int]] = {}
        self._inserted = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, item: K) -> bool:
        return item in self._live

    def __iter__(self) -> Iterator[K]:
        """Items in no particular order."""
        return iter(self._live)

    def put(self, item: K, key: Any) -> None:
        """Adds an item, or moves it to another key. Keys must be mutually comparable."""
        known = self._live.get(item)
        if known is not None and known[0] == key:
            return
        self._inserted += 1
        self._live[item] = (key, self._inserted)
        heapq.heappush(self._nodes, (key, self._inserted, item))
        self._compact()

    def discard(self, item: K) -> bool:
        """Removes an item; False when it is not there."""
        if self._live.pop(item, None) is None:
            return False
        self._compact()
        return True

    def peek(self) -> K | None:
        """The item with the smallest key; None when empty."""
        return self._nodes[0][2] if self._settle() else None

    def peek_key(self) -> Any:
        """The smallest key; None when empty."""
        return self._nodes[0][0] if self._settle() else None

    def key_of(self, item: K) -> Any:
        """The key of an item. Raises KeyError when it is not there."""
        return self._live[item][0]

    def ordered(self, limit: int) -> list[K]:
        """The first `limit` items in order; O(limit log limit) while few nodes are dead."""
        found: list[K] = []
        nodes = self._nodes
        # Walks down from the top: a node comes before those below it.
        open_: list[tuple[tuple[Any, int, K], int]] = [(nodes[0], 0)] if nodes else []
        while open_ and len(found) < limit:
            (key, inserted, item), at = heapq.heappop(open_)
            if self._live.get(item) == (key, inserted):
                found.append(item)
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(nodes):
                    heapq.heappush(open_, (nodes[child], child))
        return found

    def rank(self, item: K) -> int:
        """Place of an item in the order, from 1; O(n). Raises KeyError."""
        mine = self._live[item]
        return 1 + sum(1 for other in self._live.values() if other < mine)

    def _settle(self) -> bool:
        """Drops dead nodes from the top; whether a live one is left."""
        nodes, live = self._nodes, self._live
        while nodes:
            _, inserted, item = nodes[0]
            known = live.get(item)
            if known is not None and known[1] == inserted:
                return True
            heapq.heappop(nodes)
        return False

    def _compact(self) -> None:
        if len(self._nodes) > _COMPACT_FROM and len(self._nodes) > 2 * len(self._live):
            self._nodes = [(key, at, item) for item, (key, at) in self._live.items()]
            heapq.heapify(self._nodes)
