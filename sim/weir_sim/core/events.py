"""What will happen when: the agenda of a run."""

import heapq
from collections.abc import Callable


class Events:
    """Callbacks in order of time; those of one moment in the order in which they were set.

    Time is integer microseconds of the virtual monotonic clock, so that equal moments are
    equal on every machine. Nothing can be set for the past (causality).
    """

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def at(self, at_us: int, action: Callable[[], None]) -> None:
        """Sets an event. Raises ValueError for a moment that has passed."""
        if at_us < self.now_us:
            raise ValueError(f"an event at {at_us} us would be before now, {self.now_us} us")
        self._sequence += 1
        heapq.heappush(self._heap, (at_us, self._sequence, action))

    def next_us(self) -> int | None:
        """When the next is due; None when nothing will happen any more."""
        return self._heap[0][0] if self._heap else None

    def advance(self, now_us: int) -> None:
        """Moves to a moment. Raises ValueError if that is back in time."""
        if now_us < self.now_us:
            raise ValueError(f"time cannot go back from {self.now_us} to {now_us} us")
        self.now_us = now_us

    def run_due(self) -> int:
        """Runs all that is due now, what it sets for now included; returns how many."""
        count = 0
        while self._heap and self._heap[0][0] <= self.now_us:
            action = heapq.heappop(self._heap)[2]
            action()
            count += 1
        return count
