"""Splitwise's measured times of Llama-2-70B and BLOOM (`perf-models/splitwise_perf_model.csv`)."""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SplitwiseCost:
    """Milliseconds read off a table, linear between its points and beyond its ends (`CostModel`).

    The table has no context: a chunk costs as a prompt of its length does, and a decode step
    by its sequences alone. A step of both takes the sum less one decode of a single sequence,
    which is the reading of the weights.

    Attributes:
        prompt_tokens: sizes of prompts, ascending; the prompts of a batch count together.
        prompt_ms: their times.
        batch_sizes: sequences that decode, ascending.
        token_ms: time of a step of so many.
    """

    prompt_tokens: NDArray[np.float64]
    prompt_ms: NDArray[np.float64]
    batch_sizes: NDArray[np.float64]
    token_ms: NDArray[np.float64]

    def step_s(
        self, prefill_tokens: int, prefill_context: int, decodes: int, context_tokens: int
    ) -> float:
        """See `CostModel`."""
        prompt = decode = 0.0
        if prefill_tokens:
            prompt = _at(prefill_tokens, self.prompt_tokens, self.prompt_ms)
        if decodes:
            decode = _at(decodes, self.batch_sizes, self.token_ms)
        shared = min(prompt, float(self.token_ms[0])) if prompt and decode else 0.0
        return (prompt + decode - shared) / 1e3


def read_splitwise(
    path: Path, model: str = "llama2-70b", hardware: str = "h100-80gb", tensor_parallel: int = 8
) -> SplitwiseCost:
    """Reads the means of one model on one kind of hardware.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no such rows.
    """
    prompts: defaultdict[int, list[float]] = defaultdict(list)
    tokens: defaultdict[int, list[float]] = defaultdict(list)
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            named = row["model"], row["hardware"], int(row["tensor_parallel"])
            if named == (model, hardware, tensor_parallel):
                size, batch = int(row["prompt_size"]), int(row["batch_size"])
                prompts[size * batch].append(float(row["prompt_time"]))
                tokens[batch].append(float(row["token_time"]))
    if not prompts:
        raise ValueError(f"{path.name} has no rows of {model}, {hardware}, TP {tensor_parallel}")
    return SplitwiseCost(*_means(prompts), *_means(tokens))


def _means(values: dict[int, list[float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sizes = sorted(values)
    means = [fmean(values[size]) for size in sizes]
    # A larger batch is never faster; what the table says so is noise of its measurement.
    return np.array(sizes, dtype=np.float64), np.maximum.accumulate(np.array(means))


def _at(size: float, sizes: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    if size > sizes[-1] and len(sizes) > 1:
        slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        return float(times[-1] + slope * (size - sizes[-1]))
    return float(np.interp(size, sizes, times))
