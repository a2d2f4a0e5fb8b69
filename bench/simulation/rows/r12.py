"""R12: pre-emption by policy: what its caps cost the urgent, and save the others."""

from dataclasses import dataclass, replace

import numpy as np

from bench.simulation.published import poisson, source
from bench.simulation.row import Context, Row
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_sim.cost.builtin import A10G
from weir_sim.outcome import Outcome, RequestRecord
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.workload import Workload

_CAPPED = PreemptionRules()
_UNCAPPED = PreemptionRules(
    max_overtakings=1_000_000,
    max_preemptions=1_000_000,
    max_overtake_ratio_millis=1_000,
)
_INTERACTIVE_RPS = 0.8
_BATCH_RPS = 1.2
_WORKERS = 4


@dataclass(frozen=True)
class _Result:
    """One run: p99 TTFT of the urgent, mean time of a batch answer, share of work thrown away."""

    urgent_p99_s: float
    batch_s: float
    wasted: float
    preemptions: int


def run(context: Context) -> Row:
    """Conversations before long summaries on two workers that have too much to do."""
    load = _load(context)
    none, capped, uncapped = (
        _result(context, load, name, rules)
        for name, rules in (("none", None), ("capped", _CAPPED), ("uncapped", _UNCAPPED))
    )
    gain = none.urgent_p99_s - uncapped.urgent_p99_s
    figures = {
        "share_of_gain_kept": _kept(none, capped, gain),
        "batch_time_over_none": capped.batch_s / none.batch_s,
        "wasted_share": capped.wasted,
        "uncapped_wasted_share": uncapped.wasted,
        "urgent_p99_s_none": none.urgent_p99_s,
        "urgent_p99_s_capped": capped.urgent_p99_s,
        "urgent_p99_s_uncapped": uncapped.urgent_p99_s,
        "batch_s_none": none.batch_s,
        "batch_s_capped": capped.batch_s,
        "batch_s_uncapped": uncapped.batch_s,
        "preemptions_capped": float(capped.preemptions),
        "preemptions_uncapped": float(uncapped.preemptions),
    }
    control = {
        "share_of_gain_kept": 0.0,
        "batch_time_over_none": 1.0,
        "wasted_share": none.wasted,
    }
    return Row(figures, control, _why(context, none, capped, uncapped))


def _why(context: Context, none: _Result, capped: _Result, uncapped: _Result) -> str:
    return (
        f"interactive {source(context, 'azure-conv')} over batch {source(context, 'arxiv')}: p99 "
        f"TTFT of the urgent {none.urgent_p99_s:.2f} s without pre-emption, "
        f"{capped.urgent_p99_s:.2f} capped ({capped.preemptions} pre-emptions), "
        f"{uncapped.urgent_p99_s:.2f} uncapped ({uncapped.preemptions}); a batch answer takes "
        f"{none.batch_s:.1f}, {capped.batch_s:.1f} and {uncapped.batch_s:.1f} s. Thrown away are "
        f"{100 * capped.wasted:.1f} and {100 * uncapped.wasted:.1f} % of the tokens, not over 20 % "
        "as expected of no cap: nothing is taken back after the first token, so what is lost is "
        "at most a prompt that has begun."
    )


def _kept(none: _Result, capped: _Result, gain: float) -> float:
    return (none.urgent_p99_s - capped.urgent_p99_s) / gain if gain > 0 else 0.0


def _result(context: Context, load: Workload, name: str, rules: PreemptionRules | None) -> _Result:
    context.progress(f"pre-emption: {name}")
    outcome = simulate(load, _setup(rules))
    urgent = _of(outcome, RequestClass.INTERACTIVE)
    batch = _of(outcome, RequestClass.BATCH)
    return _Result(
        urgent_p99_s=float(np.percentile([record.ttft_s or 0.0 for record in urgent], 99)),
        batch_s=float(np.mean([_time_s(record) for record in batch])),
        wasted=_wasted(outcome),
        preemptions=len(outcome.scheduler_decisions) - len(load.requests),
    )


def _time_s(record: RequestRecord) -> float:
    return (record.end_s or 0.0) - record.request.arrival_s


def _of(outcome: Outcome, request_class: RequestClass) -> list[RequestRecord]:
    return [r for r in outcome.completed if r.request.request_class is request_class]


def _wasted(outcome: Outcome) -> float:
    """Share of the computed tokens that were computed again."""
    done = sum(record.computed_tokens for record in outcome.records)
    needed = sum(
        record.request.prompt_tokens - record.cached_tokens + record.output_tokens - 1
        for record in outcome.completed
    )
    return (done - needed) / done


def _setup(rules: PreemptionRules | None) -> Setup:
    pool = PoolRules(name="mixed", isolation=Isolation.SHARED, policy="priority", preemption=rules)
    spec = WorkerSpec(
        kv_blocks=1_500,
        max_batch_size=8,
        max_concurrent_requests=8,
        max_step_tokens=512,
    )
    return Setup(
        workers=(spec,) * _WORKERS,
        cost=A10G,
        pool=pool,
        report_interval_s=1.0,
        report_coalesce_s=0.02,
    )


def _load(context: Context) -> Workload:
    seconds = 30.0 if context.quick else 300.0
    talk = poisson(context, "azure-conv", _INTERACTIVE_RPS, round(_INTERACTIVE_RPS * seconds))
    papers = poisson(context, "arxiv", _BATCH_RPS, round(_BATCH_RPS * seconds), seed=2)
    requests = [
        replace(one, request_id=f"i{one.request_id}", tenant_id="talk", priority=50)
        for one in talk.requests
    ] + [
        replace(
            one,
            request_id=f"b{one.request_id}",
            tenant_id="papers",
            request_class=RequestClass.BATCH,
        )
        for one in papers.requests
    ]
    requests.sort(key=lambda one: one.arrival_s)
    return Workload("mixed", tuple(requests))
