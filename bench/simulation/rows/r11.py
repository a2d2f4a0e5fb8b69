"""R11: how often a fleet changes its size, and when new workers come too late."""

from dataclasses import dataclass

import numpy as np

from bench.simulation.rate_curve import day, following
from bench.simulation.row import Context, Row
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_sim.cost.builtin import A10G
from weir_sim.outcome import Outcome
from weir_sim.setup import AutoscaleSpec, Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.workload import Workload

_SECOND = 1_000_000
_MOST = 12
_SPEC = WorkerSpec(
    kv_blocks=1_500, max_batch_size=24, max_concurrent_requests=24, max_step_tokens=2_048
)
_STEADY = ScalingRules(
    min_workers=1,
    max_workers=_MOST,
    stable_us=30 * _SECOND,
    down_window_us=60 * _SECOND,
    down_period_us=15 * _SECOND,
)
_EAGER = ScalingRules(
    min_workers=1,
    max_workers=_MOST,
    up_tolerance=0.0,
    down_tolerance=0.0,
    stable_us=1,
    panic_us=1,
    panic_threshold=1_000.0,
    down_window_us=0,
    max_up_factor=100.0,
    up_period_us=0,
    max_down_factor=100.0,
    down_period_us=0,
    startup_us=0,
)
"""Every change of the load is followed at once: the same signals without hysteresis."""


@dataclass(frozen=True)
class _Result:
    """Changes of size, p90 TTFT, and worker-seconds used."""

    events: int
    p90_s: float
    worker_s: float


def run(context: Context) -> Row:
    """A day of demand in a quarter of an hour, by interval, start-up time and hysteresis."""
    curve, name = day(context)
    seconds, requests = (60.0, 30) if context.quick else (900.0, 1_000)
    load = following(context, curve, seconds, requests)
    intervals = (1.0, 10.0) if context.quick else (1.0, 10.0, 60.0, 300.0)
    startups = (0.0, 60.0) if context.quick else (0.0, 60.0, 300.0)
    eager = {s: _result(context, load, _EAGER, s, 10.0) for s in intervals[:2]}
    steady = {s: _result(context, load, _STEADY, s, 10.0) for s in intervals}
    late = {s: _result(context, load, _STEADY, 10.0, s) for s in startups}
    figures = {
        "events_over_eager_1s": steady[1.0].events / max(1, eager[1.0].events),
        "p90_over_eager_1s": steady[1.0].p90_s / eager[1.0].p90_s,
        "worker_time_over_eager_1s": steady[1.0].worker_s / eager[1.0].worker_s,
        "eager_events_1s_over_10s": eager[1.0].events / max(1, eager[10.0].events),
        "p90_longest_startup_over_none": late[startups[-1]].p90_s / late[0.0].p90_s,
        **{f"eager_events_{s:g}s": float(one.events) for s, one in eager.items()},
        **{f"events_{s:g}s": float(one.events) for s, one in steady.items()},
        **{f"p90_s_interval_{s:g}s": one.p90_s for s, one in steady.items()},
        **{f"p90_s_startup_{s:g}s": one.p90_s for s, one in late.items()},
    }
    control = {
        "events_over_eager_1s": 1.0,
        "p90_over_eager_1s": 1.0,
        "p90_longest_startup_over_none": 1.0,
    }
    return Row(figures, control, _why(name, eager, steady, late))


def _why(
    name: str,
    eager: dict[float, _Result],
    steady: dict[float, _Result],
    late: dict[float, _Result],
) -> str:
    by_interval = ", ".join(f"{s:g} s: {one.events}/{one.p90_s:.1f} s" for s, one in steady.items())
    by_startup = ", ".join(f"{s:g} s: {one.p90_s:.1f} s" for s, one in late.items())
    return (
        f"{name} in a quarter of an hour: without hysteresis {eager[1.0].events} changes of size "
        f"at an interval of 1 s and {eager[10.0].events} at 10 s; with it, changes and p90 TTFT by "
        f"interval {by_interval}; p90 by start-up time {by_startup}. The fall from 1 s to 10 s is "
        "the one published for a planner without hysteresis; with it the number hardly depends on "
        "the interval."
    )


def _result(
    context: Context, load: Workload, rules: ScalingRules, interval_s: float, startup_s: float
) -> _Result:
    kind = "steady" if rules is _STEADY else "eager"
    context.progress(f"{kind}, interval {interval_s:g} s, start-up {startup_s:g} s")
    outcome = simulate(load, _setup(rules, interval_s, startup_s))
    return _Result(
        events=len(outcome.scale_events),
        p90_s=_p90_s(outcome),
        worker_s=sum(worker.up_s for worker in outcome.workers),
    )


def _p90_s(outcome: Outcome) -> float:
    return float(np.percentile([record.ttft_s or 0.0 for record in outcome.completed], 90))


def _setup(rules: ScalingRules, interval_s: float, startup_s: float) -> Setup:
    return Setup(
        workers=(_SPEC, _SPEC),
        cost=A10G,
        report_interval_s=1.0,
        autoscale=AutoscaleSpec(_SPEC, rules, interval_s, startup_s),
        sample_s=1e6,
    )
