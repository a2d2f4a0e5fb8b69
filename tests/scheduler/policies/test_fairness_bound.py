"""Invariant 8: the weighted service of any two waiting tenants differs by a bounded amount.

|S_f/w_f - S_g/w_g| <= 2U over every interval in which both wait, with
U = [max(w_p L_in, w_q sum M_r) + w_q (pool output between two reports)] / min(w). S is taken
from what the replicas computed (`FleetModel.service`), not from the scheduler's counters.
"""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.policies.fleet_model import (
    OUTPUT_WEIGHT,
    PROMPT_WEIGHT,
    Conditions,
    FleetModel,
    Load,
)
from tests.scheduler.support import FixedRules
from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.queues.rounds.weighted.service_counters import ServiceCounters
from weir_scheduler.rules.queue_rules import FairQueue, QueueRules
from weir_scheduler.rules.rules import Isolation

ALPHA_MILLIS = 500


def longest(load: Load) -> int:
    """Prompt tokens at most."""
    return load.prompt[1] + (load.prefix_blocks * PREFIX_GRANULARITY if load.families else 0)


def capacity(fleet: FleetModel) -> int:
    """sum M_r: tokens of the requests that the scheduler lets run at once, over all replicas."""
    conditions, loads = fleet.conditions, fleet.loads.values()
    largest = max(longest(load) + load.output[1] for load in loads)
    by_cost = conditions.batch_tokens * 1_000 // ALPHA_MILLIS
    return conditions.replicas * min(by_cost, conditions.slots * largest)


def bound(fleet: FleetModel) -> float:
    """U, weighted tokens at weight 1."""
    conditions, loads = fleet.conditions, fleet.loads.values()
    longest_prompt = max(longest(load) for load in loads)
    unreported = conditions.replicas * conditions.slots
    unreported *= conditions.report_every + conditions.report_delay
    service = max(PROMPT_WEIGHT * longest_prompt, OUTPUT_WEIGHT * capacity(fleet))
    return (service + OUTPUT_WEIGHT * unreported) / min(load.weight for load in loads)


class Gaps:
    """The largest change of a pair's gap while both wait, over all pairs and intervals."""

    def __init__(self, fleet: FleetModel) -> None:
        self._fleet = fleet
        self._open: dict[tuple[str, str], tuple[float, float]] = {}
        self.largest = 0.0
        self.intervals = 0

    def note(self) -> None:
        waiting = self._fleet.backlogged()
        for pair in combinations(sorted(self._fleet.loads), 2):
            if not waiting.issuperset(pair):
                self._open.pop(pair, None)
                continue
            gap = self._gap(*pair)
            if pair not in self._open:
                self.intervals += 1
            low, high = self._open.get(pair, (gap, gap))
            self._open[pair] = min(low, gap), max(high, gap)
            self.largest = max(self.largest, self._open[pair][1] - self._open[pair][0])

    def _gap(self, one: str, other: str) -> float:
        service, loads = self._fleet.service, self._fleet.loads
        return service[one] / loads[one].weight - service[other] / loads[other].weight


def gaps_of(fleet: FleetModel, steps: int) -> Gaps:
    gaps = Gaps(fleet)
    for _ in range(steps):
        fleet.step()
        gaps.note()
    return gaps


def lengths(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(1, most), st.integers(1, most)).map(
        lambda ends: (min(ends), max(ends))
    )


LOADS = st.lists(
    st.builds(
        Load,
        weight=st.integers(1, 8),
        prompt=lengths(300),
        output=lengths(40),
        families=st.sampled_from([0, 0, 1, 3]),
        cap=st.sampled_from([0, 0, 0, 1, 3]),
        pauses=st.sampled_from([0.0, 0.0, 0.05]),
    ),
    min_size=2,
    max_size=4,
)
CONDITIONS = st.builds(
    Conditions,
    replicas=st.integers(1, 8),
    slots=st.integers(1, 5),
    batch_tokens=st.sampled_from([700, 1_500, 6_000]),
    kv_blocks=st.sampled_from([60, 400]),
    step_tokens=st.sampled_from([16, 64, 512]),
    report_every=st.integers(1, 4),
    report_delay=st.integers(0, 5),
    cancel=st.sampled_from([0.0, 0.02, 0.1]),
    fail=st.sampled_from([0.0, 0.03]),
    lose=st.sampled_from([0.0, 0.01]),
    cache_pieces=st.sampled_from([2, 200]),
)


def locality(quantum_tokens: int) -> FixedRules:
    queue = QueueRules(fair_queue=FairQueue.LOCALITY, quantum_tokens=quantum_tokens)
    return FixedRules(queue=queue)


@settings(max_examples=8, deadline=None)
@given(loads=LOADS, conditions=CONDITIONS, seed=st.integers(0, 10_000))
def test_weighted_service_stays_in_the_bound(
    loads: list[Load], conditions: Conditions, seed: int
) -> None:
    fleet = FleetModel({f"t{n}": load for n, load in enumerate(loads)}, conditions, seed=seed)
    assert gaps_of(fleet, 100).largest <= 2 * bound(fleet)


@settings(max_examples=7, deadline=None)
@given(
    loads=LOADS,
    conditions=CONDITIONS,
    quantum=st.sampled_from([1, 200, 5_000]),
    seed=st.integers(0, 10_000),
)
def test_with_locality_it_stays_in_the_bound_and_the_quantum(
    loads: list[Load], conditions: Conditions, quantum: int, seed: int
) -> None:
    """2(U + Q), the quantum as it is granted at weight 1."""
    named = {f"t{n}": load for n, load in enumerate(loads)}
    fleet = FleetModel(named, conditions, locality(quantum), seed)
    assert gaps_of(fleet, 100).largest <= 2 * (bound(fleet) + quantum)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@settings(max_examples=600, deadline=None)
@given(
    loads=LOADS,
    conditions=CONDITIONS,
    quantum=st.sampled_from([0, 1, 200, 5_000]),
    seed=st.integers(0, 10**6),
)
def test_many_more_fleets_stay_in_the_bound(
    loads: list[Load], conditions: Conditions, quantum: int, seed: int
) -> None:
    named = {f"t{n}": load for n, load in enumerate(loads)}
    fleet = FleetModel(named, conditions, locality(quantum) if quantum else None, seed)
    assert gaps_of(fleet, 400).largest <= 2 * (bound(fleet) + quantum)


HEAVY = Load(prompt=(150, 200), output=(30, 40))
LIGHT = Load(prompt=(1, 10), output=(1, 4))
UNEQUAL = {"heavy": HEAVY, "light": LIGHT}


def test_one_queue_for_all_leaves_the_bound() -> None:
    """Control: by arrival alone, long requests take ever more than short ones."""
    conditions = Conditions(replicas=2, slots=2)
    unfair = FleetModel(UNEQUAL, conditions, FixedRules(isolation=Isolation.SHARED))
    assert gaps_of(unfair, 400).largest > 2 * bound(unfair)
    fair = FleetModel(UNEQUAL, conditions)
    assert gaps_of(fair, 400).largest <= bound(fair)


def test_without_the_lift_idle_time_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: who comes back with an old counter takes everything until it has caught up."""
    loads = {"steady": Load(output=(5, 20)), "returning": Load(output=(5, 20))}

    def largest_after_a_pause() -> tuple[float, float]:
        fleet = FleetModel(loads, Conditions())
        fleet._silent.add("returning")
        gaps_of(fleet, 450)
        fleet._silent.clear()
        return gaps_of(fleet, 250).largest, 2 * bound(fleet)

    largest, allowed = largest_after_a_pause()
    assert largest <= allowed
    monkeypatch.setattr(ServiceCounters, "_floor", lambda self, least: 0)
    largest, allowed = largest_after_a_pause()
    assert largest > allowed


@pytest.mark.parametrize("rules", [FixedRules(), locality(500)], ids=["tokens", "locality"])
def test_shares_follow_the_weights_over_several_replicas(rules: FixedRules) -> None:
    loads = {f"w{weight}": Load(weight=weight) for weight in (1, 2, 3, 4)}
    fleet = FleetModel(loads, Conditions(replicas=4, report_every=2, report_delay=2), rules)
    gaps_of(fleet, 300)
    total = fleet.service.total()
    shares = [fleet.service[name] / total for name in loads]
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.03)


def test_fairness_costs_no_throughput() -> None:
    """Within 3 % of one queue in order of arrival, in tokens computed, same load and fleet."""
    conditions = Conditions(replicas=3, slots=4, report_every=2)
    alike = Load(prompt=(80, 80), output=(1, 40))
    loads = {"a": alike, "b": replace(alike, weight=3)}
    tokens = {}
    for name, rules in {
        "fifo": FixedRules(isolation=Isolation.SHARED),
        "tokens": FixedRules(),
        "locality": locality(500),
    }.items():
        fleet = FleetModel(loads, conditions, rules)
        gaps_of(fleet, 300)
        tokens[name] = fleet.service.total()
    assert min(tokens["tokens"], tokens["locality"]) >= 0.97 * tokens["fifo"]


def test_a_larger_quantum_finds_more_cached_prefixes() -> None:
    """More prefixes than the cache holds: what goes together is computed once."""
    loads = {name: Load(prompt=(1, 20), output=(1, 5), families=3) for name in "ab"}
    conditions = Conditions(replicas=1, slots=1, cache_pieces=4, step_tokens=64)
    hits = {}
    for name, rules in {
        "none": FixedRules(),
        "small": locality(1),
        "large": locality(5_000),
    }.items():
        fleet = FleetModel(loads, conditions, rules)
        gaps_of(fleet, 300)
        hits[name] = fleet.hit_tokens / (fleet.hit_tokens + fleet.service.total())
    assert hits["large"] > hits["small"] > hits["none"]
