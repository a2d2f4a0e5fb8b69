"""Shares of clients in a load."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def shares_through(points: Sequence[tuple[int, float]]) -> NDArray[np.float64]:
    """Shares, largest first, of which the first n sum up to what is known of them.

    Between two known ranks the sum grows linearly with the logarithm of the rank, as with a
    Zipf law of exponent 1.

    Args:
        points: (rank, share of all up to that rank) by rising rank, from rank 1 to the last,
            whose share is 1.
    """
    ranks = [rank for rank, _ in points]
    if ranks[0] != 1 or points[-1][1] != 1.0:
        raise ValueError(f"points are {points}; they must go from rank 1 to a share of 1")
    known_logs = np.log(np.array(ranks, dtype=np.float64))
    every_log = np.log(np.arange(1, ranks[-1] + 1, dtype=np.float64))
    sums = np.interp(every_log, known_logs, np.array([share for _, share in points]))
    return np.diff(sums, prepend=0.0)
