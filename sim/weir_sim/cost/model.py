"""How long a step of a worker takes."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class CostModel(Protocol):
    """Time of one engine step by what it computes."""

    def step_s(
        self, prefill_tokens: int, prefill_context: int, decodes: int, context_tokens: int
    ) -> float:
        """Seconds of one step; more than 0 for a step that computes anything.

        Args:
            prefill_tokens: prompt tokens computed, over all chunks of the step.
            prefill_context: positions read by them: a chunk of n tokens that begins at position
                s reads n s + n (n + 1) / 2.
            decodes: sequences that produce one token each.
            context_tokens: positions read by these, the new token included.
        """


@runtime_checkable
class VectorCost(Protocol):
    """A cost model that computes many steps at once, with the same values as `step_s`."""

    def decodes_s(self, decodes: int, context_tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of steps that only decode, for each of these contexts."""
