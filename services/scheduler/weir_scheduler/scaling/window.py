"""Values of the last while, in a bounded number of buckets."""

from collections import deque

_BUCKETS = 60


class _Bucket:
    __slots__ = ("count", "high", "index", "low", "total")

    def __init__(self, index: int) -> None:
        self.index = index
        self.total = 0.0
        self.count = 0
        self.low = float("inf")
        self.high = float("-inf")


class Window:
    """Mean, lowest and highest of the values of the last `span_us`; exact to 1/60 of it.

    A span of 0 knows the latest value alone.
    """

    def __init__(self, span_us: int) -> None:
        self.span_us = span_us
        self._width_us = max(1, -(-span_us // _BUCKETS))
        self._count = -(-span_us // self._width_us)
        self._buckets: deque[_Bucket] = deque()

    def add(self, now_us: int, value: float) -> None:
        """Takes a value; moments never go back."""
        index = now_us // self._width_us
        if not self.span_us:
            self._buckets.clear()
        if not self._buckets or self._buckets[-1].index != index:
            self._buckets.append(_Bucket(index))
        bucket = self._buckets[-1]
        bucket.total += value
        bucket.count += 1
        bucket.low, bucket.high = min(bucket.low, value), max(bucket.high, value)
        while self._buckets[0].index < index - self._count:
            self._buckets.popleft()

    def mean(self) -> float:
        """Mean over the buckets in which there was a value. Raises ValueError when empty."""
        if not self._buckets:
            raise ValueError("no value yet")
        return sum(one.total / one.count for one in self._buckets) / len(self._buckets)

    def lowest(self) -> float:
        """The lowest value; infinite when empty."""
        return min((one.low for one in self._buckets), default=float("inf"))

    def highest(self) -> float:
        """The highest value; minus infinity when empty."""
        return max((one.high for one in self._buckets), default=float("-inf"))
