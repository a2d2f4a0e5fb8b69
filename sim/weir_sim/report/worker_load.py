"""Requests on each worker over time."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weir_sim.outcome import Outcome

_POINTS = 400


def running(outcome: Outcome) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.int64]]]:
    """Worker, moments, and requests dispatched to it and not ended, at 400 moments.

    By each request's last attempt: earlier ones are not in its record.
    """
    begins: dict[str, list[float]] = defaultdict(list)
    ends: dict[str, list[float]] = defaultdict(list)
    for record in outcome.records:
        if record.worker and record.dispatched_s is not None:
            begins[record.worker].append(record.dispatched_s)
            ends[record.worker].append(outcome.end_s if record.end_s is None else record.end_s)
    times = np.linspace(0, outcome.end_s, _POINTS)
    for summary in outcome.workers:
        name = summary.worker_id
        begun = np.searchsorted(np.sort(begins[name]), times, side="right")
        ended = np.searchsorted(np.sort(ends[name]), times, side="right")
        yield name, times, (begun - ended).astype(np.int64)
