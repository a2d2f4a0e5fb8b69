"""R14: a tenant beside bursty others, against the same tenant alone."""

from collections import Counter
from dataclasses import replace

import numpy as np

from bench.simulation.baselines.rounds import ByTurns, instead
from bench.simulation.row import Context, Row
from weir_scheduler.rules.queue_rules import FairQueue, QueueRules
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_sim.cost.builtin import H100
from weir_sim.generator.presets import PRESETS
from weir_sim.generator.workload_of_preset import workload_of_preset
from weir_sim.outcome import Outcome
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.traces.workload_of import workload_of_file
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload

_FILE = "servegen/language-m-small.arrivals.csv.gz"
_BEGIN_S = 3 * 86_400.0
_SECONDS = 5.0
_SLOWER = 0.09
"""The published service has 1,100 requests/s here; one worker takes about a twelfth of them."""
_MOST_OF_LOAD = 0.1
_SLOTS, _CAP = 64, 16


def run(context: Context) -> Row:
    """Clients of ServeGen's m-small on one worker that they overload together."""
    workload, source = _workload(context)
    victim = _victim(workload)
    alone = replace(workload, requests=tuple(r for r in workload.requests if r.tenant_id == victim))
    weighted = PoolRules("r14", Isolation.WEIGHTED, "fifo")
    shared = PoolRules("r14", Isolation.SHARED, "fifo")
    locality = replace(weighted, queue=QueueRules(fair_queue=FairQueue.LOCALITY))
    context.progress("alone")
    alone_s = _p99_s(simulate(alone, _setup(weighted)), victim)
    p99_s = {}
    for name, pool in (("vtc", weighted), ("fcfs", shared), ("locality", locality)):
        context.progress(name)
        p99_s[name] = _p99_s(simulate(workload, _setup(pool)), victim)
    context.progress("capped")
    p99_s["capped"] = _p99_s(simulate(workload, _capped(_setup(weighted))), victim)
    context.progress("turns")
    with instead(ByTurns):
        p99_s["turns"] = _p99_s(simulate(workload, _setup(weighted)), victim)
    over = {name: value / alone_s for name, value in p99_s.items()}
    figures = {
        "victim_p99_over_alone": over["vtc"],
        "victim_share_of_tokens": _tokens(workload)[victim] / sum(_tokens(workload).values()),
        "alone_p99_s": alone_s,
        **{f"{name}_p99_s": value for name, value in p99_s.items()},
        **{f"{name}_p99_over_alone": value for name, value in over.items()},
    }
    return Row(
        figures,
        {"victim_p99_over_alone": over["fcfs"]},
        f"{source}: p99 of the victim's first token alone {alone_s:.2f} s, by VTC "
        f"{over['vtc']:.1f} times that, by locality {over['locality']:.1f}, by turns "
        f"{over['turns']:.1f}, first come first served (control) {over['fcfs']:.0f}. Beyond 2 "
        f"because nothing that runs is taken off: the next in turn waits until a slot and KV "
        f"blocks come free; with at most {_CAP} of {_SLOTS} slots a tenant {over['capped']:.1f}",
    )


def _workload(context: Context) -> tuple[Workload, str]:
    file = context.file(_FILE)
    seconds = 1.0 if context.quick else _SECONDS
    if file is None:
        options = WorkloadOptions(limit=400 if context.quick else 4_000, rate_scale=1.2)
        return workload_of_preset(PRESETS["servegen"], options), "generated load (no $TRACES)"
    options = WorkloadOptions(
        from_s=_BEGIN_S, until_s=_BEGIN_S + seconds, rate_scale=_SLOWER, seed=14
    )
    return workload_of_file(file, options), "ServeGen m-small"


def _tokens(workload: Workload) -> Counter[str]:
    tokens: Counter[str] = Counter()
    for request in workload.requests:
        tokens[request.tenant_id] += request.prompt_tokens + 2 * request.output_tokens
    return tokens


def _victim(workload: Workload) -> str:
    """The tenant with the most requests that asks for less than a tenth of all tokens."""
    tokens = _tokens(workload)
    total = sum(tokens.values())
    counts = Counter(request.tenant_id for request in workload.requests)
    modest = [t for t in counts if tokens[t] < _MOST_OF_LOAD * total]
    return max(modest, key=lambda tenant: (counts[tenant], tenant))


def _setup(pool: PoolRules) -> Setup:
    worker = WorkerSpec(
        kv_blocks=4_096,
        max_batch_size=_SLOTS,
        max_concurrent_requests=_SLOTS,
        max_step_tokens=1_024,
    )
    return Setup(workers=(worker,), cost=H100, pool=pool, sample_s=10.0)


def _capped(setup: Setup) -> Setup:
    """No tenant holds more than a part of the slots."""
    return replace(setup, tenant=replace(setup.tenant, max_running_requests=_CAP))


def _p99_s(outcome: Outcome, tenant: str) -> float:
    waits = [
        record.ttft_s
        for record in outcome.records
        if record.request.tenant_id == tenant and record.ttft_s is not None
    ]
    return float(np.quantile(waits, 0.99))
