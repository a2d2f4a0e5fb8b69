"""How much longer steps take than before for as many tokens."""

from weir_cli.doctor.work import Work

FEWEST_STEPS = 50
"""Of each window; the time of fewer steps may be that of a few slow ones."""


def step_growth(before: Work, after: Work) -> float:
    """Times that a step takes longer, 1 for no longer or unknown.

    A step with more tokens may take longer in proportion; one with fewer may not take less, as
    much of its time is not for tokens.
    """
    if min(before.steps, after.steps) < FEWEST_STEPS or not before.step_seconds:
        return 1.0
    more_rows = max(1.0, after.rows_per_step / before.rows_per_step)
    return max(1.0, after.step_seconds / (before.step_seconds * more_rows))
