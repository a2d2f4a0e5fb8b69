"""Work that was lately given to each worker, for bounded affinity."""

HALF_LIFE_US = 120_000_000

_HIGHEST = 2.0**512


class RecentWork:
    """Exponentially decayed sums of a fleet, comparable at any moment without a pass over it.

    What counts now is not decayed later; instead what is added later weighs more, twice as
    much each half-life. Ratios of sums are then those of decayed sums, and only these matter.

    Args:
        half_life_us: in which work counts half.
    """

    __slots__ = ("_epoch_us", "_half_life_us", "generation")

    def __init__(self, half_life_us: int = HALF_LIFE_US) -> None:
        self._half_life_us = half_life_us
        self._epoch_us: int | None = None
        self.generation = 0
        """Grows when all sums must begin anew because weights have become too large."""

    def weight(self, now_us: int) -> float:
        """What one token of work weighs now."""
        if self._epoch_us is None:
            self._epoch_us = now_us
        halvings = (now_us - self._epoch_us) / self._half_life_us
        weight: float = 2.0 ** min(halvings, 512.0)
        if weight >= _HIGHEST:
            self._epoch_us, weight = now_us, 1.0
            self.generation += 1
        return weight
