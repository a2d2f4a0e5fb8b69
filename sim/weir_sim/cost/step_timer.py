"""A cost model in the units of the agenda."""

import numpy as np

from weir_sim.cost.model import CostModel, VectorCost


class StepTimer:
    """Microseconds of steps of one worker, each 1 or more.

    Args:
        cost: of a step.
        speed: the worker's, relative to the cost model.
    """

    def __init__(self, cost: CostModel, speed: float) -> None:
        self._cost = cost
        self._vector = cost if isinstance(cost, VectorCost) else None
        self._scale = 1e6 / speed

    def step_us(
        self, prefill_tokens: int, prefill_context: int, decodes: int, context_tokens: int
    ) -> int:
        """Microseconds of one step; arguments as of `CostModel.step_s`."""
        seconds = self._cost.step_s(prefill_tokens, prefill_context, decodes, context_tokens)
        return max(1, round(seconds * self._scale))

    def decodes_us(self, decodes: int, context_tokens: int, steps: int) -> list[int]:
        """Microseconds of each of the next steps of a batch that only decodes.

        Args:
            decodes: sequences; the context grows by so many tokens a step.
            context_tokens: of the first step.
            steps: how many.
        """
        if self._vector is None or steps == 1:
            return [
                self.step_us(0, 0, decodes, context_tokens + step * decodes)
                for step in range(steps)
            ]
        contexts = context_tokens + decodes * np.arange(steps, dtype=np.int64)
        times = np.rint(self._vector.decodes_s(decodes, contexts) * self._scale)
        lengths: list[int] = np.maximum(times, 1).astype(np.int64).tolist()
        return lengths
