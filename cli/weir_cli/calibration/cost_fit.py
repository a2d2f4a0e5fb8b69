"""The simulator's cost model, fitted to probes of a served model."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from weir_cli.calibration.measurement import Measurement, seconds_of
from weir_sim.cost.fitted import SeenSteps, ServedCost, fit_served


@dataclass(frozen=True, slots=True)
class CostFit:
    """A cost model and how well it describes what it was fitted to.

    Attributes:
        served: of steps, and of a request beside them.
        error: mean relative error over the probes.
        probes: how many.
    """

    served: ServedCost
    error: float
    probes: int


def fit_cost(probes: Iterable[Measurement], max_step_tokens: int) -> CostFit:
    """Fits the probes: lone prompts by their first token, batches by their decode steps.

    Args:
        probes: of lone requests, and of batches of equal ones.
        max_step_tokens: prompt tokens of one step at most.

    Raises:
        ValueError: there is nothing that could be fitted.
    """
    seen: list[SeenSteps] = []
    for probe in probes:
        if probe.decode is not None:
            seen.append(_decodes(probe))
        if probe.decode is None or probe.decode.streams == 1:
            seen += _first_tokens(probe, max_step_tokens)
    served = fit_served(seen)
    errors = [abs(served.seconds(one) - one.seconds) / one.seconds for one in seen]
    return CostFit(served, fmean(errors), len(seen))


def _decodes(probe: Measurement) -> SeenSteps:
    decode = probe.decode
    assert decode is not None
    return SeenSteps(1, 0, 0, decode.streams, decode.context, decode.step_s)


def _first_tokens(probe: Measurement, max_step_tokens: int) -> list[SeenSteps]:
    """A lone prompt: its steps, and what the request takes beside them."""
    times = seconds_of(one.ttft_s for one in probe.answered)
    if not times:
        return []
    tokens = probe.answered[0].prompt_tokens
    steps = math.ceil(tokens / max_step_tokens)
    # The least disturbed of a few.
    return [SeenSteps(steps, tokens, tokens * (tokens + 1) / 2, 0, 0, _middle(times), True)]


def _middle(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
