"""R8: how stale reports may be, with and without the scheduler's own increments."""

import numpy as np

from bench.simulation.published import poisson, source
from bench.simulation.row import Context, Row
from weir_sim.cost.builtin import H100
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.workload import Workload

_STALE_MS = (0, 5, 50, 100, 500)
_WORKERS = 8
_LOAD = 0.85
_SPEC = WorkerSpec(
    kv_blocks=8_192, max_batch_size=128, max_concurrent_requests=256, max_step_tokens=2_048
)


def run(context: Context) -> Row:
    """Poisson arrivals at 85 % of what 8 workers can do; what they report is up to 500 ms old."""
    requests = 100 if context.quick else 800
    stale_ms = (0, 500) if context.quick else _STALE_MS
    rate_rps = _LOAD * _capacity_rps(context)
    load = poisson(context, "azure-conv", rate_rps, requests)
    with_own, without = (
        {ms: _p99_s(context, load, ms, own) for ms in stale_ms} for own in (True, False)
    )
    fresh_s, stale_s = with_own[0], without[500]
    recovered = (stale_s - with_own[500]) / max(1e-9, stale_s - fresh_s)
    figures = {
        "p99_stale_over_fresh": with_own[500] / fresh_s,
        "recovered_by_increments": recovered,
        "without_increments_over_fresh": stale_s / fresh_s,
        "rate_rps": rate_rps,
        **{f"p99_s_{ms}ms": value for ms, value in with_own.items()},
        **{f"p99_s_{ms}ms_without": value for ms, value in without.items()},
    }
    control = {"p99_stale_over_fresh": stale_s / without[0], "recovered_by_increments": 0.0}
    listed = ", ".join(f"{ms} ms {without[ms]:.2f} s" for ms in stale_ms)
    return Row(
        figures,
        control,
        f"{source(context, 'azure-conv')}, {rate_rps:.1f} requests/s on {_WORKERS} workers: p99 "
        f"TTFT {fresh_s:.2f} s fresh, {with_own[500]:.2f} s at 500 ms with local increments, which "
        f"take back {100 * recovered:.0f} % of what staleness costs; without them: {listed}.",
    )


def _capacity_rps(context: Context) -> float:
    """Requests/s of a fleet that never lacks work."""
    requests = 100 if context.quick else 600
    burst = poisson(context, "azure-conv", 1e6, requests)
    outcome = simulate(burst, _setup(2, 100, own=True))
    # Half of them: neither the filling nor the emptying of the batches.
    ends = np.sort([record.end_s or 0.0 for record in outcome.completed])
    early, late = len(ends) // 4, 3 * len(ends) // 4
    return float((late - early) / (ends[late] - ends[early])) * _WORKERS / 2


def _p99_s(context: Context, load: Workload, stale_ms: int, own: bool) -> float:
    context.progress(f"{stale_ms} ms, {'with' if own else 'without'} increments")
    outcome = simulate(load, _setup(_WORKERS, stale_ms, own=own))
    return float(np.percentile([record.ttft_s or 0.0 for record in outcome.completed], 99))


def _setup(workers: int, stale_ms: int, *, own: bool) -> Setup:
    return Setup(
        workers=(_SPEC,) * workers,
        cost=H100,
        local_increments=own,
        # A report at every change, which takes that long to arrive.
        report_interval_s=1.0,
        report_coalesce_s=0.0,
        report_delay_s=stale_ms / 1e3,
        sample_s=1e6,
    )
