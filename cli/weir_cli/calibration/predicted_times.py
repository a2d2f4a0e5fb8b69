"""Times of lone requests and of equal ones at once, by the fitted cost model."""

import math

from weir_cli.calibration.plan import Cell
from weir_sim.cost.fitted import ServedCost


def lone_ttft_s(served: ServedCost, prompt: int, max_step_tokens: int) -> float:
    """Predicted time to the first token of a prompt that is alone."""
    cost = served.cost
    steps = math.ceil(prompt / max_step_tokens)
    positions = prompt * (prompt + 1) / 2
    computed = cost.prefill_token * prompt + cost.prefill_position * positions
    return served.request_s + cost.step * steps + computed


def whole_s(served: ServedCost, cell: Cell, level: int, max_step_tokens: int) -> float:
    """Predicted time of a wave of so many equal requests."""
    first_s = lone_ttft_s(served, cell.prompt * level, max_step_tokens)
    step_s = served.cost.step_s(0, 0, level, level * (cell.prompt + cell.output))
    return first_s + cell.output * step_s
