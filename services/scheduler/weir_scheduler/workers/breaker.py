"""Half-open circuit breaker of one worker."""

from weir_scheduler.workers.attempt_key import AttemptKey

THRESHOLD = 3
FIRST_COOL_DOWN_US = 5_000_000
LONGEST_COOL_DOWN_US = 60_000_000


class Breaker:
    """Keeps new work from a worker that fails attempt after attempt.

    Counts faults of transport and engine only: what a request did wrong itself (too long, a
    bad grant) must never close a fleet. After `threshold` faults in a row it opens for a
    cool-down, then lets one attempt probe; a success closes it, a fault opens it for twice
    the time, and a probe that ends without showing anything lets the next one go.
    """

    def __init__(self, threshold: int = THRESHOLD, cool_down_us: int = FIRST_COOL_DOWN_US) -> None:
        self._threshold = threshold
        self._first_cool_down_us = cool_down_us
        self._cool_down_us = cool_down_us
        self._faults = 0
        self._open_until_us: int | None = None
        self._probe: AttemptKey | None = None

    @property
    def open_until_us(self) -> int | None:
        """When a probe is allowed; None while the breaker is closed."""
        return self._open_until_us

    def allows(self, now_us: int) -> bool:
        """Whether an attempt may be dispatched."""
        if self._open_until_us is None:
            return True
        return now_us >= self._open_until_us and self._probe is None

    def dispatched(self, key: AttemptKey) -> None:
        """An attempt goes to the worker; while open, it is the probe."""
        if self._open_until_us is not None:
            self._probe = key

    def over(self, key: AttemptKey) -> None:
        """An attempt has ended, however it did: if it was the probe, the next may go."""
        if self._probe == key:
            self._probe = None

    def success(self) -> None:
        """The worker did its work."""
        self._faults = 0
        self._open_until_us = None
        self._probe = None
        self._cool_down_us = self._first_cool_down_us

    def fault(self, now_us: int) -> None:
        """An attempt failed by a fault of the worker."""
        self._faults += 1
        if self._faults < self._threshold:
            return
        if self._open_until_us is not None and now_us >= self._open_until_us:
            self._cool_down_us = min(2 * self._cool_down_us, LONGEST_COOL_DOWN_US)
        self._open_until_us = now_us + self._cool_down_us
        self._probe = None
