"""A day of demand, and requests that follow it."""

import csv
import gzip
from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bench.simulation.published import poisson
from bench.simulation.row import Context
from weir_sim.workload import Workload

_FILE = "servegen/language-m-small.arrivals.csv.gz"
_BIN_S = 600
_BINS = 144
_FIRST_BIN = 144


def day(context: Context) -> tuple[NDArray[np.float64], str]:
    """Demand over a day in bins of 10 minutes, mean 1, and where it is from."""
    path = context.file(_FILE)
    if path is None:
        return _generated(), "a generated day ($TRACES is not given)"
    totals: defaultdict[int, float] = defaultdict(float)
    with gzip.open(path, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            totals[int(float(row["start_s"])) // _BIN_S] += float(row["rate_rps"])
    curve = np.array([totals[_FIRST_BIN + index] for index in range(_BINS)])
    return curve / curve.mean(), "the second day of servegen m-small"


def following(
    context: Context, curve: NDArray[np.float64], seconds: float, requests: int
) -> Workload:
    """Conversations whose Poisson arrivals follow a curve, compressed into so many seconds."""
    load = poisson(context, "azure-conv", 1.0, requests)
    # Arrivals of rate 1 on the axis of the demand that has come so far.
    ends = np.concatenate([[0.0], np.cumsum(curve)]) / curve.sum()
    span = load.requests[-1].arrival_s
    moments = np.interp(
        [one.arrival_s / span for one in load.requests], ends, np.linspace(0, seconds, len(ends))
    )
    return replace(
        load,
        name="day",
        requests=tuple(
            replace(one, arrival_s=float(at_s))
            for one, at_s in zip(load.requests, moments, strict=True)
        ),
    )


def _generated() -> NDArray[np.float64]:
    """Quiet nights, busy days, and an hour of double demand."""
    hours = np.arange(_BINS) / 6.0
    curve = 1.0 - 0.6 * np.cos(2 * np.pi * (hours - 3.0) / 24.0)
    curve[(hours >= 14) & (hours < 15)] *= 2.0
    noise = np.random.default_rng(11).lognormal(0.0, 0.1, _BINS)
    noisy: NDArray[np.float64] = curve * noise
    mean = float(noisy.mean())
    return noisy / mean
