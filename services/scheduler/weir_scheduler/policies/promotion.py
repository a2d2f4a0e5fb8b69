"""Aging and a cap on overtakings, each with a bound."""

from weir_scheduler.policies.overtaking import Overtaking


class Promotion:
    """Says when the next dispatch of a queue belongs to its longest-waiting request.

    Three bounds follow. Of the aged requests the r-th oldest waits for at most
    `promote_every x r` more dispatches, whatever arrives. At least
    `(promote_every - 1) / promote_every` of the dispatches go by the policy while no request
    has reached the cap, however many are aged: aging without that turns a long backlog of
    unimportant work into priority inversion. And no request is overtaken more than
    `max_overtaken` times by requests that arrived after it.

    The overtakings of a request are counted as the dispatches since it came (`mark`) that did
    not go to the longest waiting: each overtaking is one of these, so the count may be too
    high, never too low, and it costs nothing per waiting request.

    Args:
        bounds: of the policy; None: the queue is in order of arrival and nothing overtakes.
    """

    __slots__ = ("_bounds", "_overtakings", "_since")

    def __init__(self, bounds: Overtaking | None) -> None:
        self._bounds = bounds
        self._since = 0
        self._overtakings = 0

    @property
    def mark(self) -> int:
        """To be kept for a request that comes now."""
        return self._overtakings

    def due(self, oldest_arrival_us: int, earliest_mark: int | None, now_us: int) -> bool:
        """Whether the next dispatch belongs to the longest waiting.

        Args:
            oldest_arrival_us: when that one arrived.
            earliest_mark: the smallest mark of those that wait; None without a cap.
            now_us: on the same axis as the arrival.
        """
        bounds = self._bounds
        if bounds is None:
            return False
        if earliest_mark is not None and self._at_cap(bounds, earliest_mark):
            return True
        aged = now_us - oldest_arrival_us >= bounds.promote_after_us
        return aged and self._since >= bounds.promote_every - 1

    def dispatched(self, *, oldest: bool) -> None:
        """Counts a dispatch from the queue; `oldest`: it was the longest-waiting one."""
        if oldest:
            self._since = 0
        else:
            self._since += 1
            self._overtakings += 1

    def _at_cap(self, bounds: Overtaking, earliest_mark: int) -> bool:
        cap = bounds.max_overtaken
        return cap is not None and self._overtakings - earliest_mark >= cap
