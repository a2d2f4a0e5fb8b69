"""How much of a load a fleet can carry."""

import numpy as np

from weir_sim.outcome import Outcome, ServiceLog

_LEAST_WAITING_S = 5.0
"""Seconds with a queue below which the capacity was not seen."""


def offered_load(outcome: Outcome) -> float | None:
    """Work that arrived per second over what the fleet computes per second while work waits.

    Above 1 the queue grows for as long as requests arrive. None where there was hardly ever a
    queue: the capacity, which was not reached, is not known then.
    """
    arrivals = [record.request.arrival_s for record in outcome.records]
    span_s = max(arrivals, default=0.0) - min(arrivals, default=0.0)
    capacity = _capacity(outcome.service)
    if capacity is None or not span_s:
        return None
    return float(outcome.service.computed[-1].sum()) / span_s / capacity


def _capacity(log: ServiceLog) -> float | None:
    """Weighted tokens a second while requests wait; None if they hardly did."""
    seconds = np.diff(log.times_s)
    done = np.diff(log.computed.sum(axis=1)).clip(min=0)
    queue = log.waiting.sum(axis=1) > 0
    waiting = queue[:-1] & queue[1:]
    waited_s = float(seconds[waiting].sum())
    if waited_s < _LEAST_WAITING_S or not done[waiting].sum():
        return None
    return float(done[waiting].sum()) / waited_s
