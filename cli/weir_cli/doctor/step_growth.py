"""How much longer steps take than before for as many tokens."""

from collections.abc import Set
from statistics import median

from weir_cli.doctor.window import Place, Window
from weir_cli.doctor.work import Work

FEWEST_STEPS = 50
"""Of each window; the time of fewer steps may be that of a few slow ones."""


def step_growth(before: Window, after: Window) -> float:
    """Times that a step takes longer, 1 for no longer or unknown.

    A step with more tokens may take longer in proportion; one with fewer may not take less, as
    much of its time is not for tokens. All steps must be so much longer, and those of the middle
    sample: a machine that stands still for a moment makes a few steps long.
    """
    both = before.places & after.places
    old, new = before.work_at(both), after.work_at(both)
    if min(old.steps, new.steps) < FEWEST_STEPS or not old.step_seconds:
        return 1.0
    more_rows = max(1.0, new.rows_per_step / old.rows_per_step)
    longer = min(new.step_seconds / old.step_seconds, _usual(after, both) / _usual(before, both))
    return max(1.0, longer / more_rows)


def _usual(window: Window, places: Set[Place]) -> float:
    return median(work.step_seconds for work in window.works_at(places))


def same_work(before: Window, after: Window) -> tuple[Work, Work]:
    """The steps of versions on devices that there were in both: another may be slower by itself."""
    both = before.places & after.places
    return before.work_at(both), after.work_at(both)
