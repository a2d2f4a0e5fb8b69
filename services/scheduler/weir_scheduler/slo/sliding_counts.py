"""Good and all events of the last so many minutes."""

_SLOTS = 60


class SlidingCounts:
    """Counts over a sliding window, exact to a sixtieth of it; constant memory.

    Args:
        window_us: its length, microseconds.
    """

    __slots__ = ("_good", "_slot_us", "_slots", "_total", "window_us")

    def __init__(self, window_us: int) -> None:
        self.window_us = window_us
        self._slot_us = max(1, window_us // _SLOTS)
        self._slots = [-1] * _SLOTS
        self._good = [0] * _SLOTS
        self._total = [0] * _SLOTS

    def add(self, now_us: int, *, good: bool) -> None:
        """Counts one event."""
        slot = now_us // self._slot_us
        at = slot % _SLOTS
        if self._slots[at] != slot:
            self._slots[at], self._good[at], self._total[at] = slot, 0, 0
        self._good[at] += good
        self._total[at] += 1

    def read(self, now_us: int) -> tuple[int, int]:
        """Good events and all events within the window."""
        oldest = now_us // self._slot_us - _SLOTS + 1
        live = [at for at, slot in enumerate(self._slots) if slot >= oldest]
        return sum(self._good[at] for at in live), sum(self._total[at] for at in live)
