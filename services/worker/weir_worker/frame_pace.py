"""When the tokens of a step leave for a gateway."""

import asyncio
from collections.abc import Callable


class FramePace:
    """Keeps frames apart: steps that follow each other quickly leave together.

    A frame costs the worker, the gateway and the client a wake-up each, on processors that steps
    may want; nobody reads so fast. What is held leaves with the next step that comes in time, or
    after twice the interval.

    Args:
        interval_s: least seconds between frames; 0: each step leaves at once.
        release: sends what is held.
    """

    def __init__(self, interval_s: float, release: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._release = release
        self._last_s = float("-inf")
        self._in_turn = False
        self._timer: asyncio.TimerHandle | None = None

    def due(self) -> bool:
        """Whether what comes now leaves now: for long enough nothing did, or in this turn."""
        if self._in_turn or not self._interval_s:
            return True
        return asyncio.get_running_loop().time() - self._last_s >= self._interval_s

    def sent(self) -> None:
        """Told when something leaves: what else comes in this turn of the loop goes along."""
        self.cancel()
        if self._in_turn or not self._interval_s:
            return
        self._in_turn = True
        asyncio.get_running_loop().call_soon(self._end_turn)

    def hold(self) -> None:
        """Told when something is held."""
        if self._timer is None:
            at_s = self._last_s + 2 * self._interval_s
            self._timer = asyncio.get_running_loop().call_at(at_s, self._release)

    def cancel(self) -> None:
        """Waits for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_turn(self) -> None:
        self._in_turn = False
        self._last_s = asyncio.get_running_loop().time()
