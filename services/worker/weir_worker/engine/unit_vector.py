"""Vectors of Euclidean length 1."""

import math
from collections.abc import Sequence


def unit_vector(values: Sequence[float]) -> list[float]:
    """The vector of that direction.

    Raises:
        ArithmeticError: it is empty or all 0, or not finite.
    """
    length = math.hypot(*values)
    if not 0 < length < math.inf:
        raise ArithmeticError("the embedding is not finite, or all 0")
    return [value / length for value in values]
