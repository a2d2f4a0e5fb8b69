"""Circuit breaker: stops asking what does not answer, and finds out when it does again."""

from enum import Enum

import msgspec


class BreakerState(Enum):
    """Whether calls go through."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class BreakerOptions(msgspec.Struct, frozen=True):
    """When a breaker opens, and how soon it is probed.

    Attributes:
        failures: consecutive failures that open it.
        first_ms: milliseconds from opening to the first probe; doubled after each that fails.
        most_ms: longest time between two probes, milliseconds.
    """

    failures: int = 5
    first_ms: int = 250
    most_ms: int = 2_000


class Breaker:
    """Counts failures of calls; opens, is probed by one call at a time, and closes again.

    Times are milliseconds of any clock that only runs.
    """

    def __init__(self, options: BreakerOptions | None = None) -> None:
        self._options = options or BreakerOptions()
        self._state = BreakerState.CLOSED
        self._failures = 0
        self._wait_ms = 0
        self._probe_at_ms = 0

    @property
    def state(self) -> BreakerState:
        """What calls may do."""
        return self._state

    @property
    def closed(self) -> bool:
        """Whether calls go through."""
        return self._state is BreakerState.CLOSED

    def succeeded(self) -> None:
        """A call was answered. Late answers, from before it opened, do not close it."""
        self._failures = 0

    def failed(self, now_ms: int, *, at_once: bool = False) -> None:
        """A call was not answered; `at_once` opens without waiting for more."""
        if not self.closed:
            return
        self._failures += 1
        if at_once or self._failures >= self._options.failures:
            self._wait_ms = self._options.first_ms
            self._open(now_ms)

    def begin_probe(self, now_ms: int) -> bool:
        """Whether the caller is to probe now; whoever is told so reports how it ended."""
        if self._state is not BreakerState.OPEN or now_ms < self._probe_at_ms:
            return False
        self._state = BreakerState.PROBING
        return True

    def end_probe(self, now_ms: int, *, answered: bool) -> None:
        """The probe has ended: close, or wait twice as long for the next."""
        if answered:
            self._state = BreakerState.CLOSED
            self._failures = 0
        else:
            self._wait_ms = min(2 * self._wait_ms, self._options.most_ms)
            self._open(now_ms)

    def _open(self, now_ms: int) -> None:
        self._state = BreakerState.OPEN
        self._probe_at_ms = now_ms + self._wait_ms
