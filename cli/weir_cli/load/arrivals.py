"""When requests are to be sent, decided before the first one is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weir_sim.generator.gaps import unit_gaps

_CHUNK = 1_024


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A stream of arrivals in the words of `vllm bench serve`.

    Attributes:
        rate: requests a second; infinity: all at once.
        burstiness: shape of the Gamma law of gaps: 1 is Poisson, less comes in bursts, more is
            evener, infinity is constant.
        ramp_up_s: the rate rises from 0 in a line for so long.
    """

    rate: float = math.inf
    burstiness: float = 1.0
    ramp_up_s: float = 0.0

    def moments(self, seed: int) -> Iterator[float]:
        """Seconds from the begin of the load, not falling, without end."""
        if math.isinf(self.rate):
            while True:
                yield 0.0
        rng = np.random.default_rng([seed, 7])
        cv = 0.0 if math.isinf(self.burstiness) else 1 / math.sqrt(self.burstiness)
        expected = 0.0
        while True:
            for gap in unit_gaps(rng, _CHUNK, cv):
                expected += float(gap)
                yield self._moment(expected)

    def _moment(self, expected: float) -> float:
        """When so many arrivals are expected to have come."""
        in_ramp = self.rate * self.ramp_up_s / 2
        if expected < in_ramp:
            return math.sqrt(2 * self.ramp_up_s * expected / self.rate)
        return self.ramp_up_s + (expected - in_ramp) / self.rate
