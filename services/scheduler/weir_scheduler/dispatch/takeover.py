"""The short wait of a scheduler that has become active, for those that the one before served."""

from collections.abc import Iterable

from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind

_SETTLE_US = 100_000
"""After the last has come: what gateways enqueue follows their first frame."""


class Takeover:
    """Holds dispatching until everybody expected is there, or the time for it is over.

    Requests of all gateways are to be in order of arrival, no worker is to be overrun because
    it came first, and nothing is to be refused as too large before the largest worker is there.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._came: set[str] = set()
        self._missing: set[str] | None = None

    def begin(self, hold_us: int) -> None:
        """Holds for `hold_us` at most; who is expected is not known yet."""
        self._came.clear()
        self._missing = None
        self._end_at(self._state.now_us() + hold_us)

    def expect(self, peers: Iterable[str]) -> None:
        """Ends the hold soon after all of these have come: names of gateways and workers."""
        if self._state.holding:
            self._missing = set(peers) - self._came
            self._look()

    def came(self, peer: str) -> None:
        """A gateway's stream has begun, or a worker has registered."""
        if self._state.holding:
            self._came.add(peer)
            if self._missing is not None:
                self._missing.discard(peer)
                self._look()

    def _look(self) -> None:
        if not self._missing:
            now_us = self._state.now_us()
            self._end_at(min(self._state.hold_until_us, now_us + _SETTLE_US))

    def _end_at(self, at_us: int) -> None:
        self._state.hold_until_us = at_us
        self._state.timers.set(TimerKind.HOLD_ENDS, None, at_us)
