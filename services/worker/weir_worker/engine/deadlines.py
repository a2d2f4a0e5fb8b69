"""When attempts end that have not ended by then."""

import heapq
from collections.abc import Callable

_FEW = 64


class Deadlines:
    """Of the attempts in the engine, the next first.

    It keeps ids, whose attempts may end long before: they are swept out when they are most of
    what is kept, so that memory is bounded by what is in the engine, not by who comes by.

    Args:
        holds: whether an attempt, by request id and number, has not ended.
    """

    def __init__(self, holds: Callable[[str, int], bool]) -> None:
        self._holds = holds
        self._heap: list[tuple[int, str, int]] = []
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline_us: int, request_id: str, attempt: int) -> None:
        """Expect an attempt to end by then, monotonic microseconds; 0: it may take for ever."""
        if not deadline_us:
            return
        heapq.heappush(self._heap, (deadline_us, request_id, attempt))
        if len(self._heap) > self._most:
            self._heap = [entry for entry in self._heap if self._holds(*entry[1:])]
            heapq.heapify(self._heap)
            self._most = _FEW + 2 * len(self._heap)

    def take_due(self, now_us: int) -> list[tuple[str, int]]:
        """Request id and number of the attempts whose time has come."""
        due = []
        while self._heap and self._heap[0][0] <= now_us:
            due.append(heapq.heappop(self._heap)[1:])
        return due
