"""The simulator beside the measured stack: the same load, the fitted cost model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from weir_cli.calibration.findings import WorkerFacts
from weir_cli.calibration.measurement import Measurement, Served, seconds_of
from weir_cli.calibration.settings import ChosenSettings, default_of
from weir_cli.load.load_request import LoadRequest
from weir_scheduler.rules.rules import Isolation, PoolRules, RequestRules
from weir_sim.cost.fitted import ServedCost
from weir_sim.outcome import Ending, Outcome
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.workload import SimRequest, Workload

_REPORT_S, _COALESCE_S = 1.0, 0.02
_PERCENTILES = (50, 95)
ALLOWED = 0.2
"""Relative error that a prediction may have, or twice the spread of the runs if that is more."""


def simulated(
    load: Sequence[LoadRequest],
    served: ServedCost,
    worker: WorkerFacts,
    chosen: ChosenSettings,
    fitted_window_ms: float = default_of("batch_wait_ms"),
) -> Outcome:
    """Runs a load on the simulator's scheduler with the stack's own parameters.

    Args:
        load: what arrives.
        served: cost model; what a request takes beside its steps includes a batch window.
        worker: what it is.
        chosen: values in force.
        fitted_window_ms: length of that batch window.
    """
    rows = int(min(worker.max_step_tokens, chosen.value("max_step_tokens")))
    most = int(min(worker.max_concurrent_requests, chosen.value("max_concurrent_requests")))
    spec = WorkerSpec(
        kv_blocks=worker.kv_blocks,
        block_size=worker.block_size,
        max_batch_size=int(min(chosen.value("max_batch_size"), rows)),
        max_batch_tokens=int(chosen.value("max_batch_tokens")),
        max_step_tokens=rows,
        max_concurrent_requests=most,
    )
    window_s = chosen.value("batch_wait_ms") / 1000
    setup = Setup(
        workers=(spec,),
        cost=served.cost,
        pool=PoolRules("calibrated", Isolation.WEIGHTED, chosen.policy or "fifo"),
        report_interval_s=_REPORT_S,
        report_coalesce_s=_COALESCE_S,
        link_s=max(0.0, served.request_s - fitted_window_ms / 1000) / 2,
        request=RequestRules(
            alpha_millis=round(chosen.value("alpha") * 1000),
            batch_wait_us=round(window_s * 1e6),
            queue_timeout_us=round(chosen.value("queue_timeout_ms") * 1000),
            max_queued_requests=int(chosen.value("max_queued_requests")),
        ),
    )
    return simulate(Workload("calibration", tuple(map(_request, load))), setup)


def _request(request: LoadRequest) -> SimRequest:
    return SimRequest(
        request_id=f"r{request.index}",
        arrival_s=request.at_s,
        tenant_id=request.tenant,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
    )


def as_served(outcome: Outcome) -> tuple[Served, ...]:
    """The simulated requests in the terms of measured ones."""
    return tuple(
        Served(
            at_s=one.request.arrival_s,
            prompt_tokens=one.request.prompt_tokens,
            output_tokens=one.output_tokens,
            ttft_s=one.ttft_s,
            tpot_s=one.tpot_s,
            e2e_s=(one.end_s or 0.0) - one.request.arrival_s,
            failure="" if one.outcome is Ending.COMPLETED else one.reason or one.outcome.value,
        )
        for one in outcome.records
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """One percentile of one latency, measured several times and predicted.

    Attributes:
        latency: `ttft` or `e2e`.
        percentile: 50 or 95.
        measured_s: median of the runs.
        predicted_s: by the simulator.
        spread: largest less smallest of the runs, over their median.
    """

    latency: str
    percentile: int
    measured_s: float
    predicted_s: float
    spread: float

    @property
    def error(self) -> float:
        """Relative, without sign."""
        return abs(self.predicted_s - self.measured_s) / self.measured_s

    @property
    def holds(self) -> bool:
        """Whether the prediction is as near as can be asked for."""
        return self.error <= max(ALLOWED, 2 * self.spread)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "latency": self.latency,
            "percentile": self.percentile,
            "measured_s": self.measured_s,
            "predicted_s": self.predicted_s,
            "error": self.error,
            "spread": self.spread,
            "holds": self.holds,
        }


def agreements(runs: Sequence[Measurement], predicted: Sequence[Served]) -> list[Agreement]:
    """Compares p50 and p95 of the first token and of whole answers."""
    latencies: dict[str, Callable[[Served], float | None]] = {
        "ttft": lambda one: one.ttft_s,
        "e2e": lambda one: one.e2e_s,
    }
    found = []
    for name, value in latencies.items():
        for percentile in _PERCENTILES:
            measured = [_percentile(run.answered, value, percentile) for run in runs]
            expected = _percentile([p for p in predicted if not p.failure], value, percentile)
            middle = median(measured)
            spread = (max(measured) - min(measured)) / middle
            found.append(Agreement(name, percentile, middle, expected, spread))
    return found


def figures_of(found: Sequence[Agreement]) -> dict[str, float]:
    """The figures of `make bench-seeing`: the worse of the two latencies each."""
    return {
        "sim_error_p50": max(one.error for one in found if one.percentile == 50),
        "sim_error_p95": max(one.error for one in found if one.percentile == 95),
        "run_to_run_spread": max(one.spread for one in found),
    }


def _percentile(
    requests: Sequence[Served], value: Callable[[Served], float | None], percentile: float
) -> float:
    return float(np.percentile(seconds_of(map(value, requests)), percentile))
