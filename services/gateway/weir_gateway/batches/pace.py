"""Work in the background that leaves the event loop to others most of the time."""

import asyncio

from weir_core.clock import Clock

_SLICE_US = 3_000


class Pace:
    """Rests after each slice of work, so that work takes no more than a part of the time.

    Args:
        clock: time.
        part: of the time, 0 to 1.
    """

    def __init__(self, clock: Clock, *, part: float) -> None:
        self._clock = clock
        self._rest_per_work = 1 / part - 1
        self._worked_us = 0
        self._since_us = 0

    def begin(self) -> None:
        """Work begins."""
        self._since_us = self._clock.monotonic_us()

    async def end(self) -> None:
        """Work ends; rests when it was enough."""
        self._worked_us += self._clock.monotonic_us() - self._since_us
        if self._worked_us >= _SLICE_US:
            rest_s = self._worked_us * self._rest_per_work / 1_000_000
            self._worked_us = 0
            await asyncio.sleep(rest_s)
