"""Runs a workload through the production scheduler on a virtual clock."""

from collections.abc import Callable

from weir_sim.core.run import Run
from weir_sim.outcome import Outcome
from weir_sim.setup import Setup
from weir_sim.workload import Workload


def simulate(
    workload: Workload, setup: Setup, progress: Callable[[float], None] | None = None
) -> Outcome:
    """Simulates a run; the same arguments give the same outcome.

    Args:
        workload: what arrives.
        setup: fleet and configuration.
        progress: told the share of requests that have ended, 0 to 1, now and then.

    Raises:
        ValueError: the workload is out of order or names a request twice.
    """
    return Run(workload, setup, progress).execute()
