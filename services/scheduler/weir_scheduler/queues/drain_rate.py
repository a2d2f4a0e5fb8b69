"""How fast a queue empties, for an honest Retry-After."""

import math

_HALF_LIFE_US = 10_000_000
_DECAY = math.log(2) / _HALF_LIFE_US
SHORTEST_S = 1.0
LONGEST_S = 300.0


class DrainRate:
    """Exponentially decayed rate of dispatches."""

    __slots__ = ("_at_us", "_count")

    def __init__(self) -> None:
        self._count = 0.0
        self._at_us = 0

    def add(self, now_us: int) -> None:
        """Counts a dispatch."""
        self._count = self._decayed(now_us) + 1.0
        self._at_us = now_us

    def per_second(self, now_us: int) -> float:
        """Dispatches per second, recent ones weighing most."""
        return self._decayed(now_us) * _DECAY * 1_000_000

    def seconds_for(self, requests: int, now_us: int) -> float | None:
        """Seconds until `requests` have been dispatched, 1 to 300; None when nothing moves."""
        rate = self.per_second(now_us)
        if rate < 0.01:
            return None
        return min(LONGEST_S, max(SHORTEST_S, math.ceil(requests / rate)))

    def _decayed(self, now_us: int) -> float:
        return self._count * math.exp(-_DECAY * max(0, now_us - self._at_us))
