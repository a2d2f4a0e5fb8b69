"""Has throughput fallen, and which part of the work takes the time?"""

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part, positive
from weir_cli.doctor.finding import Symptom
from weir_cli.doctor.mix import alike, output_kept
from weir_cli.doctor.statistics import FEWEST, SURE, mean, median, shift
from weir_cli.doctor.step_growth import step_growth
from weir_cli.doctor.tokens_for_each import TokensForEach, from_hits, from_prompts
from weir_cli.doctor.window import Window

FELL_TO = 0.8
"""Of the former rate: less is within the spread of an hour's load."""
DEMAND_STAYED = 0.8
"""Of the requests that lived at once: where fewer ask, fewer tokens are no fault."""
DEMAND_GREW = 1.2
"""Times the tokens that are asked for: more share a worker, and that each is slower is no fault."""


def throughput_fell(evidence: Evidence) -> Excess | None:
    """The loss, if there is one: of the whole, or of each answer at equal load.

    Only with `FEWEST` answers in each window.
    """
    before, after = evidence.baseline, evidence.recent
    if min(before.answered, after.answered) < FEWEST:
        return None
    told = _whole(evidence) or _each(evidence)
    return Excess(Symptom.THROUGHPUT, told, _parts(evidence)) if told else None


def _whole(evidence: Evidence) -> str:
    before, after = evidence.baseline, evidence.recent
    asked = after.in_flight >= DEMAND_STAYED * before.in_flight
    if not asked or after.output_rate > FELL_TO * before.output_rate:
        return ""
    if after.usual_output_rate > FELL_TO * before.usual_output_rate:
        return ""  # it stood still for a moment
    if output_kept(before, after) > FELL_TO:
        return ""  # others ask, and are served as before
    return (
        f"output fell from {before.output_rate:.1f} to {after.output_rate:.1f} tokens/s with "
        f"{before.in_flight:.1f} and {after.in_flight:.1f} requests in flight"
    )


def _each(evidence: Evidence) -> str:
    before, after = evidence.baseline, evidence.recent
    old, new = alike(before, after, "speed")
    more = _asked(after) > DEMAND_GREW * _asked(before) or (
        after.arrival_rate > DEMAND_GREW * before.arrival_rate
    )
    if more or shift(before.values("speed"), new) > -SURE or median(new) > FELL_TO * median(old):
        return ""
    return (
        f"an answer's speed fell from {median(old):.1f} to {median(new):.1f} tokens/s (median) "
        f"at {before.arrival_rate:.2f} and {after.arrival_rate:.2f} requests/s"
    )


def _asked(window: Window) -> float:
    """Output tokens a second that requests ask for."""
    return window.arrival_rate * mean(window.values("output_length"))


def _parts(evidence: Evidence) -> dict[Part, float]:
    """Step seconds for each output token that came on top, by where from.

    Seconds for each output token are tokens computed for it, times seconds for each of these.
    """
    before, after = evidence.baseline.work, evidence.recent.work
    if not (before.decoded and after.decoded):
        return {}
    each = before.seconds / before.rows
    more = _more_rows(evidence)
    slower = (
        after.step_seconds
        * (1 - 1 / step_growth(evidence.baseline, evidence.recent))
        / after.rows_per_step
    )
    smaller = 0.0
    if after.rows_per_step < before.rows_per_step:
        smaller = before.step_seconds * (1 / after.rows_per_step - 1 / before.rows_per_step)
    rows = after.rows_per_output
    return positive(
        {
            **{part: added * each for part, added in more.items()},
            Part.SLOW_STEPS: rows * slower,
            Part.SMALL_STEPS: rows * smaller,
        }
    )


def _more_rows(evidence: Evidence) -> dict[Part, float]:
    """Further tokens computed for each output token."""
    before, after = TokensForEach.of(evidence.baseline), TokensForEach.of(evidence.recent)
    old, new = evidence.baseline.work, evidence.recent.work
    again = new.recomputed / new.decoded - old.recomputed / old.decoded
    outputs = max(1.0, after.output)
    shorter = before.computed * (1 / outputs - 1 / max(1.0, before.output))
    return {
        Part.PROMPTS: from_prompts(before, after) / outputs + shorter,
        Part.HITS: from_hits(before, after) / outputs,
        Part.RECOMPUTED: again,
    }
