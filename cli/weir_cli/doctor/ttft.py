"""Does the first token come later, and where does it wait?"""

import math

from weir.gateway.v1.history_service_pb2 import Distribution
from weir_cli.doctor.demand import demand_growth
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part, positive
from weir_cli.doctor.finding import Symptom
from weir_cli.doctor.mix import alike
from weir_cli.doctor.places import narrowing
from weir_cli.doctor.statistics import FEWEST, SURE, joined, mean, median, quantile, shift
from weir_cli.doctor.step_growth import step_growth
from weir_cli.doctor.tokens_for_each import TokensForEach, from_hits, from_prompts
from weir_cli.doctor.waiting import Blocked
from weir_cli.doctor.window import Window

LATER = 1.5
"""Times the former median: less is within the spread of an hour's load."""
TAIL_LATER = 2.0
"""Times the former 95th percentile, of which there are fewer requests."""
LATER_S = 0.1
"""Seconds on average; nobody feels less."""
_MOMENT = 2
_NEGLIGIBLE = math.log(1.1)
_WAITS = {
    Blocked.TENANT_CAP: Part.TENANT_CAP,
    Blocked.KV: Part.KV,
    Blocked.NO_WORKER: Part.NO_WORKER,
    Blocked.BATCH_WINDOW: Part.BATCH_WINDOW,
}


def ttft_rose(evidence: Evidence) -> Excess | None:
    """The rise, if there is one. Only with `FEWEST` answers in each window."""
    before = evidence.baseline.values("ttft")
    old, new = alike(evidence.baseline, evidence.recent, "ttft")
    if min(before.count, new.count) < FEWEST or mean(new) - mean(old) < LATER_S:
        return None
    later = shift(before, new) >= SURE and median(new) >= LATER * median(old)
    tail = quantile(new, 0.95) >= TAIL_LATER * quantile(old, 0.95) and _many_above(
        old, new, evidence.recent
    )
    if not (later or tail):
        return None
    told = (
        f"the first token came after {_ms(median(old))} and now {_ms(median(new))} (median), "
        f"{_ms(quantile(old, 0.95))} and now {_ms(quantile(new, 0.95))} (95th percentile)"
    )
    return Excess(Symptom.TTFT, told, rise_parts(evidence))


def rise_parts(evidence: Evidence) -> dict[Part, float]:
    """Seconds of the mean that came on top, by where from."""
    parts = {Part.INTAKE: _grown(evidence, "intake_time")}
    for more in (_queued(evidence), _prefilled(evidence)):
        for part, size in more.items():
            parts[part] = parts.get(part, 0.0) + size
    return positive(parts)


def _many_above(old: Distribution, new: Distribution, recent: Window) -> bool:
    """Many more than one in twenty lie above the former 95th percentile, not in one moment alone.

    A moment: whoever waits while a machine stands still comes late together, in one sample or two.
    """
    bound = quantile(old, 0.95)
    each = sorted(
        _above(joined(flow.ttft for flow in recent.flows_of(sample)), bound)
        for sample in recent.samples
    )
    moment = sum(each[-_MOMENT:])
    expected = 0.05 * new.count
    return _above(new, bound) - moment >= expected + SURE * math.sqrt(expected) + 1


def _above(values: Distribution, bound: float) -> int:
    return sum(
        count
        for bucket, count in zip(values.buckets, values.counts, strict=True)
        if 2.0 ** ((bucket - 1) / 4) >= bound
    )


def _queued(evidence: Evidence) -> dict[Part, float]:
    """By what waited; what waits for a full worker does so for a reason that lies elsewhere."""
    seconds = _grown(evidence, "queue_time")
    if seconds <= 0:
        return {}
    more = {
        blocked: max(0.0, evidence.waiting.of(blocked) - evidence.waited.of(blocked))
        for blocked in Blocked
    }
    whole = sum(more.values())
    if not whole:
        return _full(evidence, seconds)
    parts = {part: seconds * more[blocked] / whole for blocked, part in _WAITS.items()}
    for part, size in _full(evidence, seconds * more[Blocked.FULL] / whole).items():
        parts[part] = parts.get(part, 0.0) + size
    return parts


def _full(evidence: Evidence, seconds: float) -> dict[Part, float]:
    """Waits for a place, by what made the work more or the workers slower.

    What each is worth is the logarithm of its factor, as the factors multiply. What no factor
    explains is that there are too few places.
    """
    logs = {part: log for part, log in _load_logs(evidence).items() if log > _NEGLIGIBLE}
    whole = sum(logs.values())
    if not whole:
        return {Part.FULL: seconds}
    return {part: seconds * log / whole for part, log in logs.items()}


def _load_logs(evidence: Evidence) -> dict[Part, float]:
    before, after = TokensForEach.of(evidence.baseline), TokensForEach.of(evidence.recent)
    work = max(1.0, before.computed + before.output)
    old, new = evidence.baseline, evidence.recent
    return {
        Part.DEMAND: math.log(max(1.0, demand_growth(old, new)))
        + math.log(max(1.0, 1 + (after.output - before.output) / work)),
        Part.PROMPTS: math.log(max(1.0, 1 + from_prompts(before, after) / work)),
        Part.HITS: math.log(max(1.0, 1 + from_hits(before, after) / work)),
        Part.SLOW_STEPS: math.log(step_growth(old, new)),
        Part.FULL: math.log(narrowing(old, new)),
    }


def _prefilled(evidence: Evidence) -> dict[Part, float]:
    """From a worker to the first token: more to compute, or slower."""
    old, new = evidence.baseline.values("prefill_time"), evidence.recent.values("prefill_time")
    seconds = mean(new) - mean(old)
    if seconds <= 0:
        return {}
    before, after = TokensForEach.of(evidence.baseline), TokensForEach.of(evidence.recent)
    each = mean(old) / max(1.0, before.computed)
    parts = {
        Part.PROMPTS: each * max(0.0, from_prompts(before, after)),
        Part.HITS: each * max(0.0, from_hits(before, after)),
    }
    growth = step_growth(evidence.baseline, evidence.recent)
    parts[Part.SLOW_STEPS] = mean(new) * (1 - 1 / growth)
    known = sum(parts.values())
    if known > seconds:
        return {part: size * seconds / known for part, size in parts.items()}
    parts[Part.CROWDED] = seconds - known
    return parts


def _grown(evidence: Evidence, name: str) -> float:
    return mean(evidence.recent.values(name)) - mean(evidence.baseline.values(name))


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"
