"""How long prompts and answers are."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from weir_cli.errors import CommandError

LONGEST = 1_000_000


class Law(StrEnum):
    """How lengths are spread."""

    FIXED = "fixed"
    NORMAL = "normal"
    UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of numbers of tokens, each 1 or more.

    Attributes:
        law: its kind.
        first: the length, the mean, or the shortest.
        second: the standard deviation, or the longest; unused by a fixed length.
    """

    law: Law
    first: float
    second: float = 0.0

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """So many lengths."""
        if self.law is Law.NORMAL:
            drawn = np.rint(rng.normal(self.first, self.second, count))
        elif self.law is Law.UNIFORM:
            drawn = rng.integers(int(self.first), int(self.second) + 1, count).astype(np.float64)
        else:
            drawn = np.full(count, self.first)
        lengths: NDArray[np.int64] = np.clip(drawn, 1, LONGEST).astype(np.int64)
        return lengths


def parse_lengths(text: str, option: str) -> Lengths:
    """Reads `N`, `normal:MEAN:DEVIATION` or `uniform:LEAST:MOST`. Raises CommandError."""
    name, *numbers = text.split(":") if ":" in text else (Law.FIXED.value, text)
    wanted = {Law.FIXED.value: 1, Law.NORMAL.value: 2, Law.UNIFORM.value: 2}.get(name)
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        values = []
    known = wanted is not None and len(values) == wanted
    if not known or not 1 <= values[0] <= LONGEST or not 0 <= values[-1] <= LONGEST:
        raise CommandError(
            f"{option} is {text!r}; it must be a number of tokens from 1 to {LONGEST}, "
            "normal:MEAN:DEVIATION or uniform:LEAST:MOST"
        )
    if name == Law.UNIFORM and values[1] < values[0]:
        raise CommandError(f"{option} is {text!r}; the least must not be above the most")
    return Lengths(Law(name), *values)
