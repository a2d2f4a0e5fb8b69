"""Recommended values against the built-in ones, measured in turn on the same load."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from weir_cli.calibration.measurement import Measurement
from weir_cli.load.goodput import Targets


class Verdict(StrEnum):
    """What came of it.

    Attributes:
        BETTER: beyond the spread of the rounds.
        EQUAL: within it, and not below by more than that.
        WORSE: the built-in values are kept.
        UNKNOWN: they could not be compared here.
    """

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Goodput of both, round by round.

    Attributes:
        rate: of the load, requests a second.
        default, recommended: requests a second within the targets.
    """

    rate: float
    default: tuple[float, ...]
    recommended: tuple[float, ...]

    @property
    def spread(self) -> float:
        """Of the rounds of either, over its median: the larger one."""
        return max(_spread(self.default), _spread(self.recommended))

    @property
    def gain(self) -> float:
        """Recommended over default, of the medians, less 1; 0 where neither has any."""
        before, after = median(self.default), median(self.recommended)
        if not before:
            return float("inf") if after else 0.0
        return after / before - 1

    @property
    def verdict(self) -> Verdict:
        """Judged by medians: a difference below the spread of the rounds is none."""
        if median(self.recommended) >= median(self.default):
            return Verdict.BETTER if self.gain > self.spread else Verdict.EQUAL
        return Verdict.EQUAL if -self.gain <= min(self.spread, _MOST_LOSS) else Verdict.WORSE

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "rate": self.rate,
            "default_goodput": list(self.default),
            "recommended_goodput": list(self.recommended),
            "gain": self.gain,
            "spread": self.spread,
            "verdict": self.verdict.value,
        }


_MOST_LOSS = 0.05
"""However noisy the rounds: who loses more than this has lost."""


def comparison(
    rate: float,
    default: Sequence[Measurement],
    recommended: Sequence[Measurement],
    targets: Targets,
) -> Comparison:
    """Of measurements on the same loads."""
    return Comparison(
        rate,
        tuple(one.goodput(targets) for one in default),
        tuple(one.goodput(targets) for one in recommended),
    )


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0
