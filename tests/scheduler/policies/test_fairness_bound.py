"""Invariant 8: the weighted service of any two waiting tenants differs by a bounded amount.

|S_f/w_f - S_g/w_g| <= 2U over every interval in which both wait, with
U = [max(w_p L_in, w_q sum M_r) + w_q (pool output between two reports)] / min(w). S is taken
from what the replicas computed (`FleetModel.service`), not from the scheduler's counters.
"""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.policies.fleet_model import (
    OUTPUT_WEIGHT,
    PROMPT_WEIGHT,
    Conditions,
    FleetModel,
    Load,
)
from weir_core.prefix_hash import PREFIX_GRANULARITY

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


@settings(max_examples=25, deadline=None)
@given(loads=LOADS, conditions=CONDITIONS, seed=st.integers(0, 10_000))
def test_weighted_service_stays_in_the_bound(
    loads: list[Load], conditions: Conditions, seed: int
) -> None:
    fleet = FleetModel({f"t{n}": load for n, load in enumerate(loads)}, conditions, seed=seed)
    assert gaps_of(fleet, 120).largest <= 2 * bound(fleet)
