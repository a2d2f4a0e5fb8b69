"""Seeded workloads shared by every benchmark, ours and the peers'."""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """A closed batch: so many streams, each of so many prompt and output tokens.

    `token_ids` is the range from which prompts are drawn: most of SmolLM2's vocabulary, or
    that of the null model.
    """

    streams: int
    prompt: int
    output: int
    token_ids: tuple[int, int] = (100, 40_000)


NULL_TOKEN_IDS = (1, 200)


def random_prompts(shape: Shape, seed: int) -> list[list[int]]:
    """Random token ids, [streams][prompt]; no two runs share a prefix."""
    draw = random.Random(seed)
    low, high = shape.token_ids
    return [[draw.randrange(low, high) for _ in range(shape.prompt)] for _ in range(shape.streams)]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, interpolated.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
