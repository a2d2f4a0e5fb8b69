"""What one decision of the scheduler costs as its queues grow, from `bench.scheduler_scale`."""

from typing import Any


def decision_figures(quick: bool) -> dict[str, Any]:
    """`decision_us_100` and `decision_us_100000`: CPU microseconds, median."""
    from bench import scheduler_scale

    return dict(scheduler_scale.figures(quick=quick))
