"""A linear cost model fitted to what was measured: steps, or answers as a client saw them."""

from collections.abc import Iterable, Sequence
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


@dataclass(frozen=True, slots=True)
class SeenSteps:
    """A stretch of steps whose time a client saw, with or without what lies around it.

    Attributes:
        steps: how many.
        prefill_tokens, prefill_context, decodes, context_tokens: summed over them; see
            `CostModel.step_s`.
        seconds: of all together.
        answered: it lies between the sending of a request and its first token, so that the time
            also holds the way there and back and whatever a request waits for.
    """

    steps: float
    prefill_tokens: float
    prefill_context: float
    decodes: float
    context_tokens: float
    seconds: float
    answered: bool = False


@dataclass(frozen=True, slots=True)
class ServedCost:
    """Time of steps, and what a request takes beside them.

    Attributes:
        cost: of steps.
        request_s: of a request beside its steps.
    """

    cost: LinearCost
    request_s: float

    def seconds(self, seen: SeenSteps) -> float:
        """What a stretch is expected to take."""
        cost = self.cost
        return (
            self.request_s * seen.answered
            + cost.step * seen.steps
            + cost.prefill_token * seen.prefill_tokens
            + cost.prefill_position * seen.prefill_context
            + cost.decode * seen.decodes
            + cost.context_token * seen.context_tokens
        )


def fit_served(seen: Sequence[SeenSteps]) -> ServedCost:
    """Fits steps and what a request takes beside them, by the least sum of relative errors squared.

    Coefficients are never negative. Relative, since stretches differ by orders of magnitude and
    a long one should not drown the others.

    Raises:
        ValueError: there is nothing, or a stretch took no time.
    """
    if not seen:
        raise ValueError("a cost model cannot be fitted to no steps at all")
    if any(not one.seconds > 0 for one in seen):
        raise ValueError("a stretch of steps took no time")
    table = np.array(
        [
            (
                one.steps,
                one.prefill_tokens,
                one.prefill_context,
                one.decodes,
                one.context_tokens,
                float(one.answered),
            )
            for one in seen
        ],
        dtype=np.float64,
    )
    features = table / np.array([one.seconds for one in seen])[:, None]
    scale = np.maximum(features.max(axis=0), 1e-12)
    fitted = _non_negative(features / scale, np.ones(len(seen))) / scale
    *cost, request_s = (float(value) for value in fitted)
    return ServedCost(LinearCost(*cost), request_s)


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
