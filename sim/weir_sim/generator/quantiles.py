"""Lengths drawn by their quantiles."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Quantiles:
    """A distribution of whole numbers given by some of its quantiles.

    Between two of them the logarithm is linear in the probability, which is exact at the given
    ones and assumes no family.

    Args:
        points: (probability, value) by rising probability, from 0 to 1; values at least 1 and
            not falling.
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        probabilities = [probability for probability, _ in points]
        values = [value for _, value in points]
        if probabilities[:1] != [0.0] or probabilities[-1:] != [1.0]:
            raise ValueError(f"probabilities are {probabilities}; they must go from 0 to 1")
        if probabilities != sorted(probabilities) or values != sorted(values) or values[0] < 1:
            raise ValueError(f"quantiles are {points}; both must rise, values from 1")
        self._probabilities = np.array(probabilities)
        self._logs = np.log(np.array(values))

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` lengths."""
        return self.at(rng.uniform(size=count))

    def at(self, probability: NDArray[np.float64]) -> NDArray[np.int64]:
        """The lengths at these probabilities."""
        logs = np.interp(probability, self._probabilities, self._logs)
        lengths: NDArray[np.int64] = np.rint(np.exp(logs)).astype(np.int64)
        return lengths
