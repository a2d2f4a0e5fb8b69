"""Time without new starts after one that failed."""

import time

_FIRST_S = 2.0
_LONGEST_S = 60.0


class StartPause:
    """Twice as long after each failure, until a start succeeds."""

    def __init__(self) -> None:
        self._length_s = 0.0
        self._until = 0.0

    @property
    def over(self) -> bool:
        """Whether a start may be tried."""
        return time.monotonic() >= self._until

    def begin(self) -> float:
        """A start failed; returns the seconds until the next."""
        self._length_s = min(max(_FIRST_S, 2 * self._length_s), _LONGEST_S)
        self._until = time.monotonic() + self._length_s
        return self._length_s

    def end(self) -> None:
        """A start succeeded."""
        self._length_s = self._until = 0.0
