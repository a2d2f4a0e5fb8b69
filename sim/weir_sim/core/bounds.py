"""The scheduler's bounds in a run."""

from dataclasses import replace

from weir_scheduler.dispatch.bounds import Bounds
from weir_sim.setup import Setup

_REPORTS_MISSED = 3


def bounds_of(setup: Setup) -> Bounds:
    """The setup's bounds, with silence judged by how its workers report."""
    interval_us = round(setup.report_interval_s * 1e6)
    silence_us = _REPORTS_MISSED * interval_us + round(setup.report_delay_s * 1e6)
    return replace(
        setup.bounds,
        report_interval_us=max(1, interval_us),
        loss_us=max(setup.bounds.loss_us, silence_us),
    )
