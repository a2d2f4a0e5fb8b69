"""Settings tried in the simulator on the fitted cost model: all on the same arrivals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from weir_cli.calibration.findings import Findings
from weir_cli.calibration.mixed_load import mixed
from weir_cli.calibration.predicted_times import whole_s
from weir_cli.calibration.prediction import as_served, simulated
from weir_cli.calibration.settings import ChosenSettings

KEPT = 0.9
"""Of the requests, within the targets: what a load must have that a worker is said to carry."""
_STEPS = (0.85, 1.0, 1.15, 1.3)
"""Of the rate that the values which are known beforehand carry."""
_SEEDS = (11, 12, 13)
_BISECTIONS = 6
_BEYOND = 1.5
_LEAST_NOISE = 0.01


@dataclass(frozen=True, slots=True)
class Trial:
    """What settings came to.

    Attributes:
        settings: that were tried.
        rates: of the loads, requests a second, rising.
        shares: by rate, of each of its loads the share of requests within the targets.
        ttft_s: mean time to the first token at the lowest rate.
        held_blocks: most KV blocks that requests held at once, at any rate.
    """

    settings: ChosenSettings
    rates: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    ttft_s: float
    held_blocks: int

    @property
    def goodput(self) -> float:
        """Good answers a second, on average over the rates."""
        return fmean(self._rated())

    @property
    def capacity(self) -> float | None:
        """Highest rate at which 90 % are kept, between two rates by a line; None: below all."""
        kept = [fmean(shares) for shares in self.shares]
        if kept[0] < KEPT:
            return None
        at = next((place for place, share in enumerate(kept) if share < KEPT), len(kept))
        if at == len(kept):
            return self.rates[-1]
        part = (kept[at - 1] - KEPT) / (kept[at - 1] - kept[at])
        return self.rates[at - 1] + part * (self.rates[at] - self.rates[at - 1])

    def lead(self, other: "Trial") -> float:
        """Goodput over the other's, relative to it; 0 within the noise of the loads."""
        differences = [mine - its for mine, its in zip(self._rated(), other._rated(), strict=True)]
        mean = fmean(differences)
        noise = 2 * stdev(differences) / math.sqrt(len(differences))
        if abs(mean) <= max(noise, _LEAST_NOISE * other.goodput):
            return 0.0
        return mean / other.goodput if other.goodput else math.inf

    def _rated(self) -> list[float]:
        return [
            rate * share
            for rate, shares in zip(self.rates, self.shares, strict=True)
            for share in shares
        ]


class Trials:
    """Tries settings on Poisson arrivals of every kind of request that keeps its targets alone.

    Args:
        found: worker, cost model and targets.
        requests: of each load.
    """

    def __init__(self, found: Findings, requests: int) -> None:
        self._found = found
        self._requests = requests
        self._rates: tuple[float, ...] = ()
        self._known: dict[object, Trial] = {}

    def scale(self, settings: Sequence[ChosenSettings]) -> bool:
        """Sets the rates around what the best of these carries; False: none carries any."""
        if not self._found.alive:
            return False
        rates = [self._carried(one) for one in settings]
        most = max(rates)
        self._rates = tuple(most * step for step in _STEPS)
        return most > 0

    def of(self, settings: ChosenSettings) -> Trial:
        """What they come to; `scale` comes first."""
        key = settings.in_full()
        if key not in self._known:
            self._known[key] = self._tried(settings)
        return self._known[key]

    def _tried(self, settings: ChosenSettings) -> Trial:
        loads = [[self._load(settings, rate, seed) for seed in _SEEDS] for rate in self._rates]
        return Trial(
            settings,
            self._rates,
            tuple(tuple(share for share, _, _ in of_rate) for of_rate in loads),
            fmean(ttft_s for _, ttft_s, _ in loads[0]),
            max(blocks for of_rate in loads for _, _, blocks in of_rate),
        )

    def _carried(self, settings: ChosenSettings) -> float:
        """The rate at which 90 % are kept, by bisection of its logarithm; 0: not even slowly."""
        low, high = self._bounds()
        if self._mean_share(settings, low) < KEPT:
            return 0.0
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            if self._mean_share(settings, middle) >= KEPT:
                low = middle
            else:
                high = middle
        return low

    def _bounds(self) -> tuple[float, float]:
        """Hardly any two requests at once; and more than the worker can compute."""
        found = self._found
        streams = max(one.streams for one in found.levels)
        rows = found.worker.max_step_tokens
        lone = fmean(whole_s(found.served, cell, 1, rows) for cell in found.alive)
        full = fmean(whole_s(found.served, cell, streams, rows) for cell in found.alive)
        slow = 0.1 / lone
        return slow, max(2 * slow, _BEYOND * streams / full)

    def _mean_share(self, settings: ChosenSettings, rate: float) -> float:
        return fmean(self._load(settings, rate, seed)[0] for seed in _SEEDS[:2])

    def _load(self, settings: ChosenSettings, rate: float, seed: int) -> tuple[float, float, int]:
        """Share within the targets, mean time to the first token, KV blocks held."""
        found = self._found
        load = mixed(found.alive, rate, self._requests, seed)
        outcome = simulated(load, found.served, found.worker, settings, found.fitted_window_ms)
        requests = as_served(outcome)
        first = [one.ttft_s for one in requests if one.ttft_s is not None]
        return (
            fmean(one.keeps(found.targets) for one in requests),
            fmean(first) if first else 0.0,
            outcome.workers[0].peak_held_blocks,
        )
