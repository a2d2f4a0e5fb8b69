"""Recommended values against those in force, measured in turn on the same loads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev
from typing import Any

from weir_cli.calibration.measurement import Measurement
from weir_cli.load.goodput import Targets


class Verdict(StrEnum):
    """What came of it.

    Attributes:
        BETTER: beyond the noise of the rounds.
        EQUAL: within it, and not below by more than 5 %.
        WORSE: the values in force are kept.
        UNKNOWN: they could not be compared here.
    """

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Goodput of both, round by round; a round's load is the same for both.

    Attributes:
        rates: of the rounds' loads, requests a second.
        default, recommended: requests a second within the targets, by round.
    """

    rates: tuple[float, ...]
    default: tuple[float, ...]
    recommended: tuple[float, ...]

    @property
    def gain(self) -> float:
        """Recommended over default, of all rounds, less 1; 0 where neither has any."""
        before, after = sum(self.default), sum(self.recommended)
        if not before:
            return math.inf if after else 0.0
        return after / before - 1

    @property
    def noise(self) -> float:
        """Of the gain: twice the standard error of the rounds' differences; 2 % at least."""
        differences = [
            after - before for before, after in zip(self.default, self.recommended, strict=True)
        ]
        middle = fmean(self.default)
        if not middle or len(differences) < _LEAST_ROUNDS:
            return _LEAST_NOISE
        error = stdev(differences) / math.sqrt(len(differences))
        return max(_LEAST_NOISE, 2 * error / middle)

    @property
    def verdict(self) -> Verdict:
        """A difference below the noise is none."""
        if self.gain >= 0:
            return Verdict.BETTER if self.gain > self.noise else Verdict.EQUAL
        return Verdict.EQUAL if -self.gain <= min(self.noise, _MOST_LOSS) else Verdict.WORSE

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "rates": list(self.rates),
            "default_goodput": list(self.default),
            "recommended_goodput": list(self.recommended),
            "gain": self.gain,
            "noise": self.noise,
            "verdict": self.verdict.value,
        }


_MOST_LOSS = 0.05
"""However noisy the rounds: who loses more than this has lost."""
_LEAST_NOISE = 0.02
_LEAST_ROUNDS = 2


def comparison(
    rates: Sequence[float],
    default: Sequence[Measurement],
    recommended: Sequence[Measurement],
    targets: Targets,
) -> Comparison:
    """Of measurements of the same loads: each load's rate by the share that was answered well.

    By the load's rate, not by the time to the last answer: one late answer changes one answer.
    """
    return Comparison(
        tuple(rates),
        tuple(rate * one.share_kept(targets) for rate, one in zip(rates, default, strict=True)),
        tuple(rate * one.share_kept(targets) for rate, one in zip(rates, recommended, strict=True)),
    )
