"""Waiting times between attempts to reconnect."""

import random


class Backoff:
    """Exponential, with full jitter over the upper half, so that clients do not come in herds.

    Args:
        first_s: the first bound.
        most_s: the largest.
        rng: source of the jitter.
    """

    def __init__(
        self, *, first_s: float = 0.1, most_s: float = 5.0, rng: random.Random | None = None
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._bound_s = first_s
        self._rng = rng or random.Random()

    def next_s(self) -> float:
        """Seconds to wait now; the bound doubles."""
        wait_s = self._bound_s * self._rng.uniform(0.5, 1.0)
        self._bound_s = min(self._most_s, self._bound_s * 2)
        return wait_s

    def reset(self) -> None:
        """Starts over, after a success."""
        self._bound_s = self._first_s
