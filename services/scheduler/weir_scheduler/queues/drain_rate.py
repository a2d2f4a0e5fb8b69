"""How fast a queue empties, for an honest Retry-After."""

import math

_HALF_LIFE_US = 10_000_000
_DECAY = math.log(2) / _HALF_LIFE_US
_SHORTEST_AGE_US = 1_000_000
_SLOWEST_PER_S = 0.01
SHORTEST_S = 1.0
LONGEST_S = 300.0


class DrainRate:
    """Exponentially decayed rate of dispatches, corrected for its short past."""

    __slots__ = ("_at_us", "_began_us", "_count")

    def __init__(self) -> None:
        self._count = 0.0
        self._at_us = 0
        self._began_us: int | None = None

    def add(self, now_us: int) -> None:
        """Counts a dispatch."""
        if self._began_us is None:
            self._began_us = now_us
        self._count = self._decayed(now_us) + 1.0
        self._at_us = now_us

    def per_second(self, now_us: int) -> float:
        """Dispatches per second, recent ones weighing most."""
        if self._began_us is None:
            return 0.0
        age_us = max(_SHORTEST_AGE_US, now_us - self._began_us)
        seen = -math.expm1(-_DECAY * age_us)
        return self._decayed(now_us) * _DECAY * 1_000_000 / seen

    def seconds_for(self, requests: int, now_us: int) -> float | None:
        """Seconds until `requests` have been dispatched, 1 to 300; None when nothing moves."""
        rate = self.per_second(now_us)
        if rate < _SLOWEST_PER_S:
            return None
        return min(LONGEST_S, max(SHORTEST_S, float(math.ceil(requests / rate))))

    def _decayed(self, now_us: int) -> float:
        return self._count * math.exp(-_DECAY * max(0, now_us - self._at_us))
