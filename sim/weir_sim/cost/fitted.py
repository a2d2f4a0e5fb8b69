"""A linear cost model fitted to steps that were measured."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir_sim.cost.linear import LinearCost


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One step of a real engine; fields as the arguments of `CostModel.step_s`."""

    prefill_tokens: int
    prefill_context: int
    decodes: int
    context_tokens: int
    seconds: float


def fit_linear(steps: Iterable[MeasuredStep]) -> LinearCost:
    """Least squares with coefficients that are never negative (active set).

    A coefficient that comes out negative is set to 0 and the rest is fitted again; what the
    steps do not tell apart is divided as the least norm has it.

    Raises:
        ValueError: there is no step.
    """
    rows = [
        (1.0, s.prefill_tokens, s.prefill_context, s.decodes, s.context_tokens, s.seconds)
        for s in steps
    ]
    if not rows:
        raise ValueError("a cost model cannot be fitted to no steps at all")
    table = np.array(rows, dtype=np.float64)
    features, seconds = table[:, :-1], table[:, -1]
    scale = np.maximum(features.max(axis=0), 1e-12)
    coefficients = _non_negative(features / scale, seconds) / scale
    return LinearCost(*(float(value) for value in coefficients))


def _non_negative(
    features: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    active = list(range(features.shape[1]))
    result = np.zeros(features.shape[1])
    while active:
        solution, *_ = np.linalg.lstsq(features[:, active], target, rcond=None)
        if (solution >= 0).all():
            result[active] = solution
            break
        active = [index for index, value in zip(active, solution, strict=True) if value >= 0]
    return result
