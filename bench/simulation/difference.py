"""The service difference that VTC's evaluation plots.

At a moment t it is the sum over clients of what each lacks behind the one served most, as far as
it asked for it: min(max_j s_j - s_i, max(0, r_i - s_i)), with s and r the service and the demand
in a window around t. Source: Sheng et al., OSDI 2024, section 5.1.
"""

import numpy as np
from numpy.typing import NDArray

from bench.simulation.machine import OUTPUT_WEIGHT, PROMPT_WEIGHT
from weir_sim.outcome import Outcome
from weir_sim.workload import Workload

WINDOW_S = 60.0


def differences(
    workload: Workload, outcome: Outcome, until_s: float, step_s: float = 10.0
) -> NDArray[np.float64]:
    """The difference at every step, weighted tokens a second of the window."""
    log = outcome.service
    edges = np.arange(0, until_s - WINDOW_S + 1e-9, step_s)
    served = _windowed(log.times_s, log.computed.astype(np.float64), edges)
    asked = np.stack([_asked(workload, tenant, edges) for tenant in log.tenants], axis=1)
    behind = served.max(axis=1, keepdims=True) - served
    lacking = np.clip(asked - served, 0, None)
    total: NDArray[np.float64] = np.minimum(behind, lacking).sum(axis=1) / WINDOW_S
    return total


def _windowed(
    times_s: NDArray[np.float64], cumulated: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    def at(moments: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = [np.interp(moments, times_s, column) for column in cumulated.T]
        return np.stack(columns, axis=1)

    return at(edges + WINDOW_S) - at(edges)


def _asked(workload: Workload, tenant: str, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    of_tenant = [one for one in workload.requests if one.tenant_id == tenant]
    times = np.array([one.arrival_s for one in of_tenant])
    costs = [
        PROMPT_WEIGHT * one.prompt_tokens + OUTPUT_WEIGHT * one.output_tokens for one in of_tenant
    ]
    sums = np.concatenate([[0.0], np.cumsum(costs)])
    begun = np.searchsorted(times, edges, side="left")
    ended = np.searchsorted(times, edges + WINDOW_S, side="left")
    total: NDArray[np.float64] = sums[ended] - sums[begun]
    return total
