"""R4: a client that was idle comes back: the lift against least counter first."""

from dataclasses import replace
from itertools import pairwise

from bench.simulation.baselines.rounds import LeastCounterFirst, RoundFactory, instead
from bench.simulation.machine import artifact_machine, steady, together
from bench.simulation.row import Context, Row
from weir_sim.outcome import Outcome
from weir_sim.report.fairness import bound_2u, max_gap
from weir_sim.simulation import simulate


def run(context: Context) -> Row:
    """One client asks for 3 requests/s throughout, the other begins in the middle, as fast."""
    half_s = 100.0 if context.quick else 300.0
    context.progress("VTC")
    vtc = _figures(None, half_s)
    context.progress("LCF")
    lcf = _figures(LeastCounterFirst, half_s)
    return Row(
        vtc,
        lcf,
        f"when the idle client returns the steady one waits {vtc['steady_starved_s']:.1f} s at "
        f"most for its next dispatch, without the lift {lcf['steady_starved_s']:.0f} s",
    )


def _figures(turns: RoundFactory | None, half_s: float) -> dict[str, float]:
    workload = together(
        "shift",
        steady("steady", 3.0, 2 * half_s),
        steady("returns", 0.2, 20.0),
        steady("returns", 3.0, half_s, begin_s=half_s),
    )
    setup = replace(artifact_machine(sample_s=0.1), until_s=2 * half_s)
    with instead(turns):
        outcome = simulate(workload, setup)
    return {
        "steady_starved_s": _starved_s(outcome, half_s, 2 * half_s),
        "gap_over_2u": max_gap(outcome.service, [1, 1], computed=True)
        / bound_2u(workload, setup, outcome),
    }


def _starved_s(outcome: Outcome, from_s: float, until_s: float) -> float:
    """Longest time without a dispatch of the steady client, which waits throughout."""
    moments = [
        decision.at_s
        for decision in outcome.scheduler_decisions
        if decision.request_id.startswith("steady") and decision.at_s >= from_s
    ]
    marks = [from_s, *moments, until_s]
    return max(later - earlier for earlier, later in pairwise(marks))
