"""What a benchmark measured, run by run."""

import sys
import time
from statistics import median


class Samples:
    """Values by name; the figure of a name is their median."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """One run's value."""
        self._values.setdefault(name, []).append(value)

    def median(self, name: str, digits: int = 2) -> float | None:
        """None if it was never measured."""
        values = self._values.get(name)
        return round(median(values), digits) if values else None

    def ratio(self, upper: str, lower: str, digits: int = 3) -> float | None:
        """Of two medians; None unless both were measured."""
        above, below = self._values.get(upper), self._values.get(lower)
        return round(median(above) / median(below), digits) if above and below else None

    def of_turns(self, upper: str, lower: str) -> list[float]:
        """Ratios of what was measured beside each other, in order; none unless both were."""
        above, below = self._values.get(upper), self._values.get(lower)
        if not above or not below:
            return []
        return [one / other for one, other in zip(above, below, strict=True)]

    def runs(self) -> dict[str, int]:
        """How often each was measured."""
        return {name: len(values) for name, values in self._values.items()}


class Budget:
    """Time of one part of a benchmark: another run is begun only while it lasts.

    Args:
        seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._seconds = seconds

    @property
    def left(self) -> float:
        """Seconds, at least 1: a bound for what was begun."""
        return max(1.0, self._start + self._seconds - time.monotonic())

    def allows(self, run: int, needed: float = 0.0) -> bool:
        """Whether to begin run number `run` (from 0) that takes `needed` seconds."""
        passed = time.monotonic() - self._start
        return run == 0 or passed + needed <= self._seconds

    def per_run(self, runs: int) -> float:
        """Seconds that each of the runs so far took."""
        return (time.monotonic() - self._start) / max(1, runs)


def say(text: str) -> None:
    """Progress, beside the figures."""
    print(text, file=sys.stderr, flush=True)
