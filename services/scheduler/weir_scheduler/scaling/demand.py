"""From signals to a number of workers, at one moment."""

from dataclasses import dataclass

from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scaling.signals import ScalingSignals


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one worker can have at once: answers, and summed estimated cost in tokens."""

    slots: float
    token_slots: float


@dataclass(frozen=True, slots=True)
class Demand:
    """Workers that would run all that is there at their targets, and the signal that says so."""

    workers: float
    driver: str


def capacity_of(signals: ScalingSignals) -> Capacity | None:
    """What a worker can do, by those that are there; None while there is none."""
    if not signals.workers or not signals.slots:
        return None
    return Capacity(signals.slots / signals.workers, signals.token_slots / signals.workers)


def demand_of(
    signals: ScalingSignals, rules: ScalingRules, capacity: Capacity | None, wait_us: int
) -> Demand:
    """The largest of what each signal asks for.

    Requests and tokens count whether they run or wait, as concurrency does in Knative's KPA:
    the answer does not depend on how many workers there are, so that workers which still start
    are not asked for twice. Queue time does depend on it, and is a ratio as in the HPA.

    Args:
        signals: of now.
        rules: targets.
        capacity: of a worker; None: unknown, then one worker is asked for if there is work.
        wait_us: queue time that these workers answer for.
    """
    if capacity is None:
        return Demand(1.0 if signals.active else 0.0, "queued")
    found = [_by_requests(signals, rules, capacity)]
    if capacity.token_slots:
        tokens = signals.tokens_in_flight + signals.queued_tokens
        found.append(Demand(tokens / (capacity.token_slots * rules.target_use), "tokens"))
    if signals.kv_use is not None:
        found.append(Demand(signals.workers * signals.kv_use / rules.target_kv_use, "kv"))
    if signals.queued and wait_us > rules.target_wait_us:
        ratio = min(wait_us / rules.target_wait_us, rules.max_up_factor)
        found.append(Demand(max(1, signals.workers) * ratio, "wait"))
    return max(found, key=lambda one: one.workers)


def _by_requests(signals: ScalingSignals, rules: ScalingRules, capacity: Capacity) -> Demand:
    places = signals.running + signals.queued
    return Demand(places / (capacity.slots * rules.target_use), "requests")
