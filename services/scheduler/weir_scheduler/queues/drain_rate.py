"""How fast a queue empties, for predicted waits and an honest Retry-After."""

import math

_HALF_LIFE_US = 20_000_000
_DECAY = math.log(2) / _HALF_LIFE_US
_SHORTEST_AGE_US = 1_000_000


class DrainRate:
    """Exponentially decayed rate of dispatches, corrected for its short past.

    Times may be on any axis that does not go back; see `BusyClock` for the one that counts
    only while workers are full.

    Args:
        began_us: from when on dispatches were counted; None: from the first one.
    """

    __slots__ = ("_amount", "_at_us", "_began_us", "_count", "seen")

    def __init__(self, began_us: int | None = None) -> None:
        self.seen = 0
        """Dispatches counted in all."""
        self._count = 0.0
        self._amount = 0.0
        self._at_us = 0
        self._began_us = began_us

    def add(self, now_us: int, amount: int = 1) -> None:
        """Counts a dispatch of so many tokens."""
        if self._began_us is None:
            self._began_us = now_us
        kept = self._kept(now_us)
        self._count = self._count * kept + 1.0
        self._amount = self._amount * kept + amount
        self._at_us = now_us
        self.seen += 1

    def per_second(self, now_us: int) -> float:
        """Dispatches per second, recent ones weighing most."""
        return self._rate(self._count, now_us)

    def amount_per_second(self, now_us: int) -> float:
        """Tokens per second, likewise."""
        return self._rate(self._amount, now_us)

    def _rate(self, total: float, now_us: int) -> float:
        if self._began_us is None:
            return 0.0
        age_us = max(_SHORTEST_AGE_US, now_us - self._began_us)
        seen = -math.expm1(-_DECAY * age_us)
        return total * self._kept(now_us) * _DECAY * 1_000_000 / seen

    def _kept(self, now_us: int) -> float:
        return math.exp(-_DECAY * max(0, now_us - self._at_us))


class BusyClock:
    """Time during which something waited for room on a worker, microseconds.

    A queue that empties at once because workers are idle says nothing about how fast it would
    empty if they were not.
    """

    __slots__ = ("_busy_us", "_since_us")

    def __init__(self) -> None:
        self._busy_us = 0
        self._since_us: int | None = None

    @property
    def running(self) -> bool:
        """Whether workers are full at present."""
        return self._since_us is not None

    def set(self, *, busy: bool, now_us: int) -> None:
        """From now on workers are full, or not."""
        if self._since_us is not None:
            self._busy_us += max(0, now_us - self._since_us)
        self._since_us = now_us if busy else None

    def at(self, now_us: int) -> int:
        """The time on this axis."""
        running_us = 0 if self._since_us is None else max(0, now_us - self._since_us)
        return self._busy_us + running_us
