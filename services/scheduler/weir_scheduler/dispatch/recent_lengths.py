"""The last few values of a series, in order of size."""

from bisect import bisect_left, insort
from collections import deque

KEPT = 64


class RecentLengths:
    """Exact quantiles of the last `KEPT` values: older ones no longer count."""

    __slots__ = ("_by_age", "_by_size")

    def __init__(self) -> None:
        self._by_age: deque[int] = deque()
        self._by_size: list[int] = []

    def __len__(self) -> int:
        return len(self._by_size)

    def add(self, value: int) -> None:
        """Takes a value in; the oldest goes when there are too many."""
        self._by_age.append(value)
        insort(self._by_size, value)
        if len(self._by_age) > KEPT:
            oldest = self._by_age.popleft()
            del self._by_size[bisect_left(self._by_size, oldest)]

    def quantile(self, share: float) -> int:
        """The smallest value that a share (0 to 1) does not exceed. Raises IndexError if empty."""
        rank = round(share * (len(self._by_size) - 1))
        return self._by_size[rank]
