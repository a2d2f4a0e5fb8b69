"""How much longer steps take than before for as many tokens."""

from weir_cli.doctor.window import Window
from weir_cli.doctor.work import Work

FEWEST_STEPS = 50
"""Of each window; the time of fewer steps may be that of a few slow ones."""


def step_growth(before: Window, after: Window) -> float:
    """Times that a step takes longer, 1 for no longer or unknown.

    A step with more tokens may take longer in proportion; one with fewer may not take less, as
    much of its time is not for tokens.
    """
    old, new = same_work(before, after)
    if min(old.steps, new.steps) < FEWEST_STEPS or not old.step_seconds:
        return 1.0
    more_rows = max(1.0, new.rows_per_step / old.rows_per_step)
    return max(1.0, new.step_seconds / (old.step_seconds * more_rows))


def same_work(before: Window, after: Window) -> tuple[Work, Work]:
    """The steps of versions on devices that there were in both: another may be slower by itself."""
    both = before.places & after.places
    return before.work_at(both), after.work_at(both)
