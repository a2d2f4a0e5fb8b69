"""A step's time as a linear function of what it computes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Seconds for each part of a step (`CostModel`).

    Attributes:
        step: of any step.
        prefill_token: for each prompt token.
        prefill_position: for each position that a prompt token reads.
        decode: for each sequence that decodes.
        context_token: for each position that a decode reads.
    """

    step: float
    prefill_token: float
    prefill_position: float
    decode: float
    context_token: float

    def step_s(
        self, prefill_tokens: int, prefill_context: int, decodes: int, context_tokens: int
    ) -> float:
        """Seconds of a step."""
        return (
            self.step
            + self.prefill_token * prefill_tokens
            + self.prefill_position * prefill_context
            + self.decode * decodes
            + self.context_token * context_tokens
        )

    def decodes_s(self, decodes: int, context_tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of steps that only decode (`VectorCost`)."""
        reads: NDArray[np.float64] = self.context_token * context_tokens.astype(np.float64)
        return reads + (self.step + self.decode * decodes)
