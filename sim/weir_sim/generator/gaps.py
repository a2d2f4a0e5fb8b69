"""Gaps between arrivals: Gamma or Weibull with a given coefficient of variation.

Source of the families: ServeGen (Xiang et al., 2025) fits either to each client of a service.
"""

import math
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

_LEAST_SHAPE, _MOST_SHAPE = 0.05, 50.0


class GapFamily(StrEnum):
    """Which distribution gaps have."""

    GAMMA = "Gamma"
    WEIBULL = "Weibull"


def unit_gaps(
    rng: np.random.Generator, count: int, cv: float, family: GapFamily = GapFamily.GAMMA
) -> NDArray[np.float64]:
    """`count` gaps of mean 1 (in expectation).

    Args:
        rng: source of chance.
        count: how many.
        cv: standard deviation over mean; 1 is Poisson. 0 means all equal.
        family: a Weibull's shape ends at 0.05, beyond which its mean is of no use; what asks for
            more (a CV over 10^5) gets that.
    """
    if cv <= 0:
        return np.ones(count)
    if family is GapFamily.WEIBULL:
        shape = weibull_shape(cv)
        return rng.weibull(shape, count) / math.gamma(1 + 1 / shape)
    shape = 1 / cv**2
    return rng.gamma(shape, 1 / shape, count)


def weibull_shape(cv: float) -> float:
    """Shape of the Weibull distribution with this CV, by bisection (CV falls with the shape)."""
    low, high = _LEAST_SHAPE, _MOST_SHAPE
    for _ in range(60):
        middle = (low + high) / 2
        if _weibull_cv(middle) > cv:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _weibull_cv(shape: float) -> float:
    # By logarithms: Gamma(1 + 2/shape) overflows long before the ratio does.
    log_ratio = math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape)
    return math.sqrt(math.expm1(log_ratio))


def arrivals_within(
    rng: np.random.Generator, count: int, seconds: float, cv: float, family: GapFamily
) -> NDArray[np.float64]:
    """Moments of exactly `count` arrivals in [0, seconds): gaps scaled to fill the time."""
    gaps = unit_gaps(rng, count + 1, cv, family)
    total = float(gaps.sum())
    if total <= 0:
        return np.sort(rng.uniform(0, seconds, count))
    moments: NDArray[np.float64] = np.cumsum(gaps)[:count] / total * seconds
    return np.minimum(moments, np.nextafter(seconds, 0))
