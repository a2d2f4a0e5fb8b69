"""Aging with a bound in both directions."""

PROMOTE_EVERY = 4


class Promotion:
    """Lets the longest-waiting request overtake, but only with every n-th dispatch.

    Both bounds follow: of the aged requests of a queue the r-th oldest waits for at most
    n x r more dispatches, whatever arrives; and at least (n-1)/n of the dispatches go by the
    policy, however many are aged. Aging without the second bound turns a long backlog of
    unimportant work into priority inversion.
    """

    __slots__ = ("_after_us", "_every", "_since")

    def __init__(self, after_us: int | None, every: int = PROMOTE_EVERY) -> None:
        self._after_us = after_us
        self._every = every
        self._since = 0

    def due(self, oldest_arrival_us: int, now_us: int) -> bool:
        """Whether the next dispatch belongs to the oldest."""
        return self.aged(oldest_arrival_us, now_us) and self._since >= self._every - 1

    def aged(self, arrival_us: int, now_us: int) -> bool:
        """Whether a request of that arrival counts as aged."""
        return self._after_us is not None and now_us - arrival_us >= self._after_us

    def dispatched(self, *, oldest: bool) -> None:
        """Counts a dispatch from the queue; `oldest`: it was the longest-waiting one."""
        self._since = 0 if oldest else self._since + 1
