"""R3: VTC on the arena trace against first come, least counter and limits of requests."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bench.simulation.baselines.request_rate import by_bucket, by_window
from bench.simulation.baselines.rounds import LeastCounterFirst, instead
from bench.simulation.difference import differences
from bench.simulation.machine import artifact_machine, tokens_s
from bench.simulation.row import Context, Row
from weir_scheduler.rules.rules import Isolation
from weir_sim.generator.presets import PRESETS
from weir_sim.generator.workload_of_preset import workload_of_preset
from weir_sim.outcome import Outcome
from weir_sim.setup import Setup
from weir_sim.simulation import simulate
from weir_sim.traces.workload_of import workload_of_file
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload

_FILE = "vtc-arena/arena_trace_27clients.csv"
_LIGHT = 20
_SPAN_S = 600.0


@dataclass(frozen=True)
class _Run:
    """What is compared: tokens/s, mean and largest difference, first token of the light."""

    tokens_s: float
    gap: float
    gap_max: float
    light_s: float


def run(context: Context) -> Row:
    """1,500 requests of 27 clients in 600 s, of which three ask for half."""
    workload, source = _workload(context)
    fifo = artifact_machine(Isolation.SHARED)
    context.progress("FCFS")
    fcfs = _measured(workload, workload, fifo)
    context.progress("LCF")
    with instead(LeastCounterFirst):
        lcf = _measured(workload, workload, artifact_machine())
    context.progress("VTC")
    vtc = _measured(workload, workload, artifact_machine())
    context.progress("limits of requests")
    rpm = {n: _measured(workload, by_window(workload, n), fifo) for n in (5, 20, 30)}
    bucket = _measured(workload, by_bucket(workload, 5), fifo)
    figures = {
        "gap_over_fcfs": vtc.gap / fcfs.gap,
        "throughput_over_fcfs": vtc.tokens_s / fcfs.tokens_s,
        "light_first_token_speedup": fcfs.light_s / vtc.light_s,
        "rpm_throughput_loss": 1 - rpm[5].tokens_s / fcfs.tokens_s,
        "tokens_s": vtc.tokens_s,
        "gap": vtc.gap,
        "gap_max": vtc.gap_max,
        "light_first_token_s": vtc.light_s,
        "fcfs_tokens_s": fcfs.tokens_s,
        "fcfs_gap": fcfs.gap,
        "fcfs_gap_max": fcfs.gap_max,
        "fcfs_light_first_token_s": fcfs.light_s,
        "lcf_tokens_s": lcf.tokens_s,
        "lcf_gap": lcf.gap,
        "lcf_light_first_token_s": lcf.light_s,
        "rpm5_bucket_tokens_s": bucket.tokens_s,
        **{f"rpm{n}_tokens_s": one.tokens_s for n, one in rpm.items()},
    }
    control = {
        "gap_over_fcfs": 1.0,
        "light_first_token_speedup": 1.0,
        "rpm_throughput_loss": 1 - rpm[30].tokens_s / fcfs.tokens_s,
    }
    return Row(
        figures,
        control,
        f"{source}: difference of service {vtc.gap:.0f} against {fcfs.gap:.0f} (artifact 235, "
        f"408), tokens/s {vtc.tokens_s:.0f} against {fcfs.tokens_s:.0f} (779, 777), first token "
        f"of the 20 lightest {vtc.light_s:.1f} s against {fcfs.light_s:.1f} (3.1, 55.9); 5 "
        f"requests a minute lose {figures['rpm_throughput_loss']:.0%} of it (56 %), by a bucket "
        f"that saves up a minute's number {1 - bucket.tokens_s / fcfs.tokens_s:.0%}; "
        f"control: first come first served",
    )


def _workload(context: Context) -> tuple[Workload, str]:
    options = WorkloadOptions(limit=300 if context.quick else 0)
    file = context.file(_FILE)
    if file is not None:
        return workload_of_file(file, options), "arena trace"
    return workload_of_preset(PRESETS["arena"], options), "generated load (no $TRACES)"


def _measured(asked: Workload, admitted: Workload, setup: Setup) -> _Run:
    outcome = simulate(admitted, setup)
    gaps = differences(asked, outcome, min(_SPAN_S, outcome.end_s))
    return _Run(tokens_s(outcome), float(gaps.mean()), float(gaps.max()), _light_s(asked, outcome))


def _light_s(asked: Workload, outcome: Outcome) -> float:
    """Mean time to the first token of the clients with the fewest requests."""
    counts = Counter(request.tenant_id for request in asked.requests)
    light = {tenant for tenant, _ in counts.most_common()[-_LIGHT:]}
    waits = [
        record.ttft_s
        for record in outcome.records
        if record.request.tenant_id in light and record.ttft_s is not None
    ]
    return float(np.mean(waits))
