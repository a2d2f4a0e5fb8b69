"""Which order of the queue, by the simulator on the fitted cost model."""

from collections.abc import Sequence

from weir_cli.calibration.advice import Advice
from weir_cli.calibration.findings import Findings
from weir_cli.calibration.prediction import as_served, simulated, simulated_goodput
from weir_cli.calibration.settings import POLICY, ChosenSettings
from weir_cli.load.load_request import LoadRequest

FIFO, SHORTEST = "fifo", "shortest_remaining"
_WORTH = 0.05


def advise_policy(found: Findings, load: Sequence[LoadRequest]) -> Advice:
    """Compares first come first served with the shortest first, at the peak's concurrency.

    Priority is never advised: it is for loads that have priorities, which no measurement knows.
    """
    if not load:
        return Advice(POLICY, FIFO, FIFO, "no concurrency keeps the targets")
    streams = float(found.best.streams)
    seconds = load[-1].at_s
    rates = {}
    for policy in (FIFO, SHORTEST):
        chosen = ChosenSettings({"max_batch_size": streams}, policy)
        outcome = simulated(load, found.served, found.worker, chosen)
        rates[policy] = simulated_goodput(as_served(outcome), found.targets, seconds)
    better = rates[SHORTEST] > rates[FIFO] * (1 + _WORTH)
    why = (
        f"simulated at {len(load) / seconds:.2f} requests/s: {rates[FIFO]:.2f} good answers a "
        f"second first come first served, {rates[SHORTEST]:.2f} the shortest first; `priority` "
        "is for tenants that send priorities"
    )
    return Advice(POLICY, SHORTEST if better else FIFO, FIFO, why)
