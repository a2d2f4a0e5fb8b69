"""Holds what is tried again after a refusal to a share of the dispatches of a lane."""

_MILLIS = 1_000
_SECOND_US = 1_000_000

BURST = 10
"""Retries that may be saved up, and that a lane begins with."""


class RetryBudget:
    """Retries allowed: a share of the dispatches, and a floor in time for quiet lanes.

    Of any span of t seconds with n dispatches at most `ratio x n + floor x t + BURST` are
    retries. Without it, workers that all refuse get each request `max_attempts` times: load is
    multiplied just when there is too much of it.
    """

    __slots__ = ("_at_us", "_millis")

    def __init__(self, now_us: int) -> None:
        self._millis = BURST * _MILLIS
        self._at_us = now_us

    def dispatched(self, ratio_millis: int) -> None:
        """Counts a dispatch."""
        self._add(ratio_millis)

    def take(self, now_us: int, per_second: int) -> bool:
        """Uses up one retry; False when there is none."""
        self._accrue(now_us, per_second)
        if self._millis < _MILLIS:
            return False
        self._millis -= _MILLIS
        return True

    def _accrue(self, now_us: int, per_second: int) -> None:
        earned = (now_us - self._at_us) * per_second * _MILLIS // _SECOND_US
        if earned or not per_second:
            self._at_us = now_us
            self._add(earned)

    def _add(self, millis: int) -> None:
        self._millis = min(BURST * _MILLIS, self._millis + millis)
