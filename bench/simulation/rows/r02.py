"""R2: shares of four overloaded clients with weights 1 to 4."""

from dataclasses import replace

from bench.simulation.machine import artifact_machine, steady, together
from bench.simulation.row import Context, Row
from weir_sim.report.fairness import bound_2u
from weir_sim.simulation import simulate

_WEIGHTS = {"a": 1, "b": 2, "c": 3, "d": 4}


def run(context: Context) -> Row:
    """Each client asks for 2 requests/s of 256/256 tokens, more than all can have."""
    seconds = 120 if context.quick else 600
    context.progress("weighted")
    weighted = _errors(_WEIGHTS, seconds)
    context.progress("unweighted")
    even = _errors(dict.fromkeys(_WEIGHTS, 1), seconds)
    return Row(
        weighted,
        even,
        f"shares differ from 10/20/30/40 % by {weighted['worst_share_error']:.2%} at most, "
        f"services per weight from their due by {weighted['worst_share_error_over_2u']:.3f} of "
        f"2U; without weights by {even['worst_share_error']:.1%}",
    )


def _errors(weights: dict[str, int], seconds: float) -> dict[str, float]:
    streams = [steady(tenant, 2.0, seconds) for tenant in _WEIGHTS]
    workload = together("four", *streams, weights=weights)
    setup = replace(artifact_machine(), until_s=seconds)
    outcome = simulate(workload, setup)
    log = outcome.service
    served = dict(zip(log.tenants, log.computed[-1].tolist(), strict=True))
    total, weight_sum = sum(served.values()), sum(_WEIGHTS.values())
    due = {tenant: total * weight / weight_sum for tenant, weight in _WEIGHTS.items()}
    bound = bound_2u(workload, setup, outcome)
    return {
        "worst_share_error_over_2u": max(
            abs(served[tenant] - due[tenant]) / weight / bound
            for tenant, weight in _WEIGHTS.items()
        ),
        "worst_share_error": max(abs(served[t] - due[t]) / total for t in _WEIGHTS),
    }
