"""DistServe's fitted polynomials for OPT on A100 (OSDI 2024, `perf-models/distserve_*.json`)."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DistServeCost:
    """Milliseconds by what a step computes (`CostModel`).

    A prompt of n tokens takes a + b n + c n^2; a decode step of batch m over a context of n
    tokens a + b n + c m, with other coefficients from `threshold` sequences on. A step of both
    takes the sum less one reading of the weights: the smaller of the two constant parts.

    Attributes:
        prefill: a, b, c.
        small: a, b, c of decode steps below `threshold` sequences.
        large: likewise from there on.
        threshold: sequences.
    """

    prefill: tuple[float, float, float]
    small: tuple[float, float, float]
    large: tuple[float, float, float]
    threshold: int

    def step_s(
        self, prefill_tokens: int, prefill_context: int, decodes: int, context_tokens: int
    ) -> float:
        """See `CostModel`; a prompt computed whole reads n (n + 1) / 2 positions."""
        base, per_token, per_square = self.prefill
        ms = shared = 0.0
        if prefill_tokens:
            # n^2 in the fit is twice the positions read.
            ms += base + per_token * prefill_tokens + per_square * 2 * prefill_context
            shared = base
        if decodes:
            first, per_context, per_decode = self._decode(decodes)
            ms += first + per_context * context_tokens + per_decode * decodes
            shared = min(shared, first)
        return (ms - shared if prefill_tokens and decodes else ms) / 1e3

    def decodes_s(self, decodes: int, context_tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `VectorCost`."""
        first, per_context, per_decode = self._decode(decodes)
        reads: NDArray[np.float64] = per_context * context_tokens.astype(np.float64)
        return (reads + (first + per_decode * decodes)) / 1e3

    def _decode(self, decodes: int) -> tuple[float, float, float]:
        return self.small if decodes < self.threshold else self.large


def read_distserve(path: Path, model: str, tensor_parallel: int = 1) -> DistServeCost:
    """Reads one model's polynomials.

    Raises:
        OSError: the file cannot be read.
        KeyError: it has no such model or degree of parallelism.
    """
    fits = json.loads(path.read_text())[model][str(tensor_parallel)]
    return DistServeCost(
        prefill=_three(fits["prefill"]),
        small=_three(fits["decoding_smallbs"]),
        large=_three(fits["decoding_largebs"]),
        threshold=int(fits["decoding_large_small_bs_threshold"]),
    )


def _three(values: list[float]) -> tuple[float, float, float]:
    first, second, third = values
    return first, second, third
