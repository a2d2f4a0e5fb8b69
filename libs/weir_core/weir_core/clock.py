"""Time as an argument: domain code takes a `Clock` and never reads one of its own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: one to write down, one to measure with, in integer microseconds."""

    def now_us(self) -> int:
        """Wall time, Unix microseconds. May jump; for records and reset times."""

    def now_ms(self) -> int:
        """`now_us` in whole milliseconds, as databases keep times."""
        return self.now_us() // 1_000

    def monotonic_us(self) -> int:
        """Microseconds since an arbitrary start. Never goes back; for durations and deadlines."""


class SystemClock(Clock):
    """The machine's clocks."""

    def now_us(self) -> int:
        """Wall time, Unix microseconds."""
        return time.time_ns() // 1_000

    def monotonic_us(self) -> int:
        """Microseconds of `time.monotonic`."""
        return time.monotonic_ns() // 1_000


class ManualClock(Clock):
    """A clock that stands still until it is moved; for tests and the simulator."""

    def __init__(self, now_us: int = 1_700_000_000_000_000, monotonic_us: int = 0) -> None:
        self._now_us = now_us
        self._monotonic_us = monotonic_us

    def now_us(self) -> int:
        """Wall time, Unix microseconds."""
        return self._now_us

    def monotonic_us(self) -> int:
        """Microseconds advanced so far, plus the start given."""
        return self._monotonic_us

    def advance_us(self, us: int) -> None:
        """Moves both readings forward. Raises ValueError on a negative step."""
        if us < 0:
            raise ValueError(f"a clock cannot be moved back by {-us} us; use jump_us")
        self._now_us += us
        self._monotonic_us += us

    def jump_us(self, us: int) -> None:
        """Moves the wall time alone, in either direction, as an NTP step does."""
        self._now_us += us
