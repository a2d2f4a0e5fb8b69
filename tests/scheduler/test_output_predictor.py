"""Predicted lengths of answers: by tenant and model, bounded, and nobody's secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.support import Bench, FixedRules
from weir_scheduler.dispatch.output_predictor import OutputPredictor
from weir_scheduler.dispatch.recent_lengths import KEPT, RecentLengths
from weir_scheduler.rules.rules import Isolation


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200), st.floats(0, 1))
def test_quantiles_are_those_of_the_last_values(values: list[int], share: float) -> None:
    lengths = RecentLengths()
    for value in values:
        lengths.add(value)
    last = sorted(values[-KEPT:])
    assert len(lengths) == len(last)
    assert lengths.quantile(share) == last[round(share * (len(last) - 1))]
    assert (lengths.quantile(0), lengths.quantile(1)) == (last[0], last[-1])


def test_a_tenants_own_answers_count_once_there_are_four() -> None:
    predictor = OutputPredictor()
    for tokens in (10, 20, 1_000):
        predictor.observe("a", "m", tokens)
    assert predictor.predict("a", "m", 500, default=500) == 500
    predictor.observe("a", "m", 30)
    assert predictor.predict("a", "m", 500, default=500) == 30
    assert predictor.predict("a", "m", 8, default=8) == 8
    assert predictor.predict("a", "other", 500, default=500) == 500
    assert predictor.quantile("a", "m", 1.0) == 1_000


def test_it_follows_a_change_within_its_memory() -> None:
    predictor = OutputPredictor()
    for tokens in [10] * 200 + [300] * 40:
        predictor.observe("a", "m", tokens)
    assert predictor.predict("a", "m", 1_000, default=0) == 300


def test_another_tenants_lengths_show_only_as_the_crowds() -> None:
    """Four tenants tell a fifth nothing; of five the middle one is told, and not exactly."""
    predictor = OutputPredictor()
    for number in range(4):
        for _ in range(10):
            predictor.observe(f"t{number}", "m", 100 + number)
    assert predictor.predict("new", "m", 999, default=999) == 999
    for _ in range(1_000):
        predictor.observe("t4", "m", 900)
    # One tenant's thousand answers count as much as another's ten.
    assert predictor.predict("new", "m", 999, default=999) == 128


def test_the_memory_is_bounded() -> None:
    predictor = OutputPredictor()
    for number in range(10_050):
        for _ in range(4):
            predictor.observe(f"t{number}", "m", 5)
    assert len(predictor._lengths) == 10_000
    assert len(predictor._medians["m"]) == 10_000


def test_shortest_remaining_learns_who_answers_shortly() -> None:
    """Equal prompts and bounds: whose answers were short goes first; aborted ones teach nothing."""
    bench = Bench(FixedRules(isolation=Isolation.SHARED, policy="shortest_remaining"))
    bench.worker("w1", max_concurrent_requests=1)
    for number in range(4):
        for tenant, output in (("long", 90), ("short", 3)):
            bench.enqueue(f"{tenant}{number}", tenant, max_new_tokens=100)
            bench.end(bench.out.dispatches[-1], output)
    bench.enqueue("cut", "long", max_new_tokens=100)
    bench.scheduler.withdraw("gw", "cut")
    bench.end(bench.out.dispatches[-1], 1)
    bench.enqueue("running", "other", max_new_tokens=100)
    bench.enqueue("x", "long", max_new_tokens=100)
    bench.enqueue("y", "short", max_new_tokens=100)
    bench.end(bench.out.dispatches[-1], 1)
    assert bench.dispatched_ids()[-1] == "y"


@pytest.mark.parametrize("cached", [False, True])
def test_shortest_remaining_takes_off_what_is_cached(cached: bool) -> None:
    bench = Bench(FixedRules(isolation=Isolation.SHARED, policy="shortest_remaining"))
    bench.worker("w1", max_concurrent_requests=1)
    chain = (b"1" * 32, b"2" * 32, b"3" * 32)
    if cached:
        bench.scheduler._state.fleet.get("w1").prefixes.add(chain)  # type: ignore[union-attr]
    bench.enqueue("running", prompt_tokens=10, max_new_tokens=10)
    bench.enqueue("long", prompt_tokens=200, max_new_tokens=10, prefix_hashes=chain)
    bench.enqueue("short", prompt_tokens=100, max_new_tokens=10)
    bench.end(bench.out.dispatches[-1], 10)
    assert bench.dispatched_ids()[-1] == ("long" if cached else "short")
