"""R1: the bound of VTC on two overloaded clients."""

from dataclasses import replace

from bench.simulation.baselines.rounds import (
    ByTurns,
    FairByRequests,
    LeastCounterFirst,
    RoundFactory,
    instead,
)
from bench.simulation.machine import artifact_machine, steady, together
from bench.simulation.row import Context, Row
from weir_scheduler.rules.rules import Isolation
from weir_sim.outcome import Outcome
from weir_sim.report.fairness import bound_2u, max_gap
from weir_sim.simulation import simulate
from weir_sim.workload import Workload

_SAMPLE_S = 0.1


def run(context: Context) -> Row:
    """Two clients at 1.5 and 3 requests/s of 256/256 tokens, and by turns with unequal ones."""
    seconds = 120 if context.quick else 600
    equal = together("equal", steady("a", 1.5, seconds), steady("b", 3.0, seconds))
    unequal = together(
        "unequal", steady("a", 3.0, seconds, 64, 64), steady("b", 3.0, seconds, 512, 256)
    )
    context.progress("VTC")
    vtc = _run(equal, None, seconds)
    context.progress("FCFS, LCF, requests, turns")
    fcfs = _run(equal, None, seconds, Isolation.SHARED)
    figures = {
        "gap_tokens": _gap(vtc),
        "gap_over_2u": _gap(vtc) / bound_2u(equal, artifact_machine(), vtc),
        "charged_gap_tokens": max_gap(vtc.service, [1, 1]),
        "unequal_gap_tokens": _gap(_run(unequal, None, seconds)),
        "fcfs_gap_tokens": _gap(fcfs),
        "fcfs_growth_second_half": _gap(fcfs)
        / _gap(_run(equal, None, seconds / 2, Isolation.SHARED)),
        "lcf_gap_tokens": _gap(_run(equal, LeastCounterFirst, seconds)),
        "requests_unequal_gap_tokens": _gap(_run(unequal, FairByRequests, seconds)),
        "turns_unequal_gap_tokens": _gap(_run(unequal, ByTurns, seconds)),
    }
    return Row(
        figures,
        {"gap_tokens": figures["fcfs_gap_tokens"]},
        f"VTC's gap {figures['gap_tokens']:,.0f} of at most 40,000 weighted tokens (artifact "
        f"7,987); first come first served {figures['fcfs_gap_tokens']:,.0f} and "
        f"{figures['fcfs_growth_second_half']:.1f} times its half-time value (artifact 261,978); "
        f"turns and fair queueing by requests are even only while requests are equal",
    )


def _run(
    workload: Workload,
    turns: RoundFactory | None,
    seconds: float,
    isolation: Isolation = Isolation.WEIGHTED,
) -> Outcome:
    setup = replace(artifact_machine(isolation, _SAMPLE_S), until_s=seconds)
    with instead(turns):
        return simulate(workload, setup)


def _gap(outcome: Outcome) -> float:
    """By what was computed: the account that is judged is not the one that was decided by."""
    return max_gap(outcome.service, [1, 1], computed=True)
