"""Work in the background that leaves the event loop to others most of the time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from weir_core.clock import Clock

_SLICE_US = 3_000


class Pace:
    """Lets several workers together take no more than a part of the time.

    Args:
        clock: time.
        part: of the time, 0 to 1.
    """

    def __init__(self, clock: Clock, *, part: float) -> None:
        self.clock = clock
        self._part = part
        self._workers = 0

    @contextmanager
    def worker(self) -> Iterator["PacedWorker"]:
        """One that works now and then, until the context ends."""
        self._workers += 1
        try:
            yield PacedWorker(self)
        finally:
            self._workers -= 1

    def rest_s(self, worked_us: int) -> float:
        """How long one worker rests after so much work: the part is shared by all."""
        return worked_us * (self._workers / self._part - 1) / 1_000_000


class PacedWorker:
    """Rests after each slice of work."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._worked_us = 0
        self._since_us = 0

    def begin(self) -> None:
        """Work begins."""
        self._since_us = self._pace.clock.monotonic_us()

    async def end(self) -> None:
        """Work ends; rests when it was enough."""
        self._worked_us += self._pace.clock.monotonic_us() - self._since_us
        if self._worked_us >= _SLICE_US:
            rest_s, self._worked_us = self._pace.rest_s(self._worked_us), 0
            await asyncio.sleep(rest_s)
