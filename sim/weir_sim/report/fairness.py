"""How evenly service was given.

The gap is that of the theorem of Sheng et al. (OSDI 2024): over any time in which two clients
wait throughout, their services per weight differ by at most 2U.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from weir_sim.outcome import Outcome, ServiceLog
from weir_sim.setup import Setup
from weir_sim.workload import Workload

_MOST_PAIRED = 64
_LEAST_DUE = 0.01
"""Part of all service below which a due is too small to judge by."""


def weights_of(workload: Workload, setup: Setup, tenants: tuple[str, ...]) -> list[int]:
    """The weight of each tenant."""
    return [workload.tenants.get(tenant, setup.tenant).weight for tenant in tenants]


def max_gap(log: ServiceLog, weights: list[int], *, computed: bool = False) -> float:
    """Largest difference of service per weight that two tenants got while both waited.

    Of the tenants served most, at most 64: others had little to be behind with. Between samples
    a tenant that waits at both ends counts as waiting.

    Args:
        log: service over time.
        weights: of `log.tenants`.
        computed: by what workers computed instead of by the scheduler's own account.
    """
    served = log.computed if computed else log.charged
    per_weight = served / np.array(weights)
    waits = log.waiting > 0
    most: list[int] = np.argsort(-served[-1])[:_MOST_PAIRED].tolist() if len(served) else []
    gaps = (
        gap
        for f, g in combinations(most, 2)
        for gap in _gaps(per_weight[:, f] - per_weight[:, g], waits[:, f] & waits[:, g])
    )
    return max(gaps, default=0.0)


def _gaps(difference: NDArray[np.float64], both: NDArray[np.bool_]) -> Iterator[float]:
    """Span of the difference within each run of samples in which both wait."""
    edges = np.flatnonzero(np.diff(both.astype(np.int8), prepend=0, append=0))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        part = difference[begin:end]
        yield float(part.max() - part.min())


def bound_2u(workload: Workload, setup: Setup, outcome: Outcome) -> float:
    """Twice U of invariant 8, in weighted tokens.

    U = [max(w_p L_in, w_q sum M_r) + w_q (pool output between two reports)] / min(w), with M_r
    the tokens that replica r's KV cache holds.
    """
    bounds = setup.bounds
    longest = max(request.prompt_tokens for request in workload.requests)
    held = sum(spec.kv_blocks * spec.block_size for spec in setup.workers)
    per_s = sum(worker.decode_tokens / worker.busy_s for worker in outcome.workers if worker.busy_s)
    unreported = per_s * (setup.report_interval_s + setup.report_delay_s)
    inner = max(bounds.prompt_weight * longest, bounds.output_weight * held)
    least = min(weights_of(workload, setup, outcome.service.tenants), default=1)
    return 2 * (inner + bounds.output_weight * unreported) / least


def attainment(log: ServiceLog, weights: list[int]) -> Mapping[str, float]:
    """Service that each tenant got while it waited, over what its weight entitled it to then.

    Its due is its part, by weight, among those that wait. Only tenants that have waited for a
    hundredth of all service count.
    """
    got, due = _got_and_due(log, weights, least_waiting=1)
    least = _LEAST_DUE * float(np.diff(log.charged, axis=0).clip(min=0).sum())
    return {
        tenant: float(got[at] / due[at]) for at, tenant in enumerate(log.tenants) if due[at] > least
    }


@dataclass(frozen=True, slots=True)
class ContendedShare:
    """A tenant's part of the service of all that waited, while two or more did; 0 to 1.

    Attributes:
        got: what it was given.
        due: what its weight entitled it to among those that waited.
    """

    got: float
    due: float


def contended_shares(log: ServiceLog, weights: list[int]) -> Mapping[str, ContendedShare]:
    """Shares while two or more tenants waited; only of tenants that waited then.

    A load that drains gives each tenant all that it asked for in the end, whatever its weight:
    weights show only here.
    """
    got, due = _got_and_due(log, weights, least_waiting=2)
    total = float(got.sum())
    if not total:
        return {}
    return {
        tenant: ContendedShare(float(got[at]) / total, float(due[at]) / total)
        for at, tenant in enumerate(log.tenants)
        if due[at]
    }


def _got_and_due(
    log: ServiceLog, weights: list[int], least_waiting: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Service by tenant while it and at least so many in all waited, and its due then."""
    given = np.diff(log.charged, axis=0).clip(min=0)
    waits = (log.waiting[:-1] > 0) & (log.waiting[1:] > 0)
    waits &= waits.sum(axis=1, keepdims=True) >= least_waiting
    waiting_weight = waits * np.array(weights)
    total_weight = waiting_weight.sum(axis=1, keepdims=True)
    part = np.divide(
        waiting_weight, total_weight, out=np.zeros(waits.shape), where=total_weight > 0
    )
    got = (given * waits).astype(np.float64)
    return got.sum(axis=0), (part * got.sum(axis=1, keepdims=True)).sum(axis=0)


def jain(values: list[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
