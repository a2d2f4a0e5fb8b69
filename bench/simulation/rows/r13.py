"""R13: shedding by a smooth curve or a gate: what the urgent gain, and what it costs."""

from dataclasses import dataclass, replace

import numpy as np

from bench.simulation.published import poisson, source
from bench.simulation.row import Context, Row
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_scheduler.rules.shedding_rules import ShedCurve, SheddingRules
from weir_sim.cost.builtin import H100
from weir_sim.outcome import Outcome
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.workload import Workload

_CAPACITY_RPS = 9.0
_OVERLOAD = 1.5
_CRITICAL_PART = 5
"""One request in so many is critical."""
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class _Result:
    """p99 TTFT of the critical, their share refused, answers of the sheddable."""

    critical_p99_s: float
    critical_refused: float
    sheddable_done: int


def run(context: Context) -> Row:
    """Two classes in one queue at 1.5 times what the worker can do."""
    load = _load(context)
    results = {curve: _result(context, load, curve) for curve in ShedCurve}
    gate, power, holdback = (
        results[curve] for curve in (ShedCurve.GATE, ShedCurve.POWER, ShedCurve.HOLDBACK)
    )
    figures = {
        "critical_p99_over_gate": holdback.critical_p99_s / gate.critical_p99_s,
        "sheddable_cost": 1 - holdback.sheddable_done / gate.sheddable_done,
        "power_critical_p99_over_gate": power.critical_p99_s / gate.critical_p99_s,
        "power_sheddable_cost": 1 - power.sheddable_done / gate.sheddable_done,
        "gate_critical_refused": gate.critical_refused,
        "holdback_critical_refused": holdback.critical_refused,
        **{f"critical_p99_s_{c}": result.critical_p99_s for c, result in results.items()},
    }
    control = {"critical_p99_over_gate": 1.0, "sheddable_cost": 0.0}
    return Row(figures, control, _why(context, gate, power, holdback))


def _why(context: Context, gate: _Result, power: _Result, holdback: _Result) -> str:
    return (
        f"{source(context, 'azure-conv')} at {_OVERLOAD:g} times the capacity, a fifth critical: "
        f"p99 TTFT of the critical {gate.critical_p99_s:.2f} s behind a gate, "
        f"{power.critical_p99_s:.2f} with p = sat^5, {holdback.critical_p99_s:.2f} with ceilings "
        f"by priority; of the critical {100 * gate.critical_refused:.0f}, "
        f"{100 * power.critical_refused:.0f} and {100 * holdback.critical_refused:.0f} % are "
        f"refused; sheddable answers {gate.sheddable_done}, {power.sheddable_done} and "
        f"{holdback.sheddable_done}."
    )


def _result(context: Context, load: Workload, curve: ShedCurve) -> _Result:
    context.progress(f"curve {curve}")
    outcome = simulate(load, _setup(curve))
    critical = [record for record in outcome.records if record.request.priority]
    served = [record.ttft_s for record in critical if record.ttft_s is not None]
    return _Result(
        critical_p99_s=float(np.percentile(served, 99)),
        critical_refused=1 - len(served) / len(critical),
        sheddable_done=_sheddable_done(outcome),
    )


def _sheddable_done(outcome: Outcome) -> int:
    return sum(not record.request.priority for record in outcome.completed)


def _setup(curve: ShedCurve) -> Setup:
    pool = PoolRules(
        name="two",
        isolation=Isolation.SHARED,
        policy="fifo",
        shedding=SheddingRules(curve=curve, from_millis=500),
    )
    spec = WorkerSpec(
        kv_blocks=8_192,
        max_batch_size=64,
        max_concurrent_requests=64,
        max_step_tokens=1_024,
    )
    plan = Setup(workers=(spec,), cost=H100, pool=pool, report_interval_s=1.0)
    timeout = replace(plan.request, queue_timeout_us=round(_TIMEOUT_S * 1e6))
    return replace(plan, request=timeout)


def _load(context: Context) -> Workload:
    requests = 80 if context.quick else 2_000
    load = poisson(context, "azure-conv", _OVERLOAD * _CAPACITY_RPS, requests)
    marked = [
        replace(one, priority=0 if index % _CRITICAL_PART else 100)
        for index, one in enumerate(load.requests)
    ]
    return Workload("two classes", tuple(marked))
