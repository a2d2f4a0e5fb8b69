"""The lease as a state machine: never two holders at a time, and always one when all is well."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.leadership.world import DRIFT, TTL_US, Trusting, World, adversity

RATES = st.lists(st.floats(1 - DRIFT, 1 + DRIFT), min_size=2, max_size=4)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 2 * TTL_US)),
        st.tuples(st.sampled_from(["exchange", "ask", "execute", "answer"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["repeat", "lose", "flush"]), st.integers(0, 9)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(RATES, EVENTS)
def test_never_two_are_active_at_one_moment(
    rates: list[float], events: list[tuple[str, int]]
) -> None:
    """Messages late, lost or repeated; clocks at rates of their own; a store that forgets."""
    world = World.of(rates)
    acts: dict[str, Callable[[int], None]] = {
        "advance": world.advance,
        "exchange": lambda n: world.exchange(n % len(rates)),
        "ask": lambda n: world.ask(n % len(rates)),
        "execute": world.execute,
        "repeat": lambda n: world.execute(n, keep=True),
        "answer": world.answer,
        "lose": lambda n: world.answer(n, lost=True),
        "flush": lambda _: world.flush(),
    }
    for name, value in events:
        acts[name](value)


@pytest.mark.parametrize("seed", range(12))
def test_never_two_are_active_in_long_adversity(seed: int) -> None:
    dice = random.Random(seed)
    world = World.of([dice.uniform(1 - DRIFT, 1 + DRIFT) for _ in range(3)])
    adversity(world, dice, 2_000)
    assert len(world.terms) > 5


def test_a_holder_that_trusts_its_lease_for_too_long_is_found() -> None:
    """Negative control: the same adversity with a holder that trusts it as long as others wait."""
    with pytest.raises(AssertionError, match="at "):
        _adversities()


@pytest.mark.parametrize("seed", range(8))
def test_after_any_adversity_there_is_one_within_two_ttl_and_it_stays(seed: int) -> None:
    dice = random.Random(seed)
    world = World.of([dice.uniform(1 - DRIFT, 1 + DRIFT) for _ in range(3)])
    adversity(world, dice, 300)
    well(world, 2 * TTL_US + TTL_US // 2)
    [first] = world.active()
    for _ in range(10):
        well(world, TTL_US)
        assert world.active() == [first]


def test_the_next_takes_over_within_the_ttl_and_a_look() -> None:
    world = World.of([1.0, 1.0])
    well(world, 2 * TTL_US)
    [first] = world.active()
    other = 1 - first
    began = world.true_us
    while world.active() != [other]:
        world.advance(TTL_US // 50)
        if due(world, other):
            world.exchange(other)
        assert world.true_us - began <= TTL_US + TTL_US // 50


def test_a_lease_that_is_given_back_is_taken_at_the_next_look() -> None:
    world = World.of([1.0, 1.0])
    well(world, 2 * TTL_US)
    [first] = world.active()
    other = 1 - first
    freed = world.candidates[first].lease.release(world.candidates[first].now_us(world.true_us))
    assert freed is not None
    assert world.active() == []
    world.store.bid(freed)
    world.exchange(other)
    world.exchange(other)
    assert world.active() == [other]


def test_a_paused_holder_is_not_active_when_it_wakes() -> None:
    world = World.of([1.0, 1.0])
    well(world, 2 * TTL_US)
    [first] = world.active()
    world.advance(TTL_US)
    assert world.active() == []
    world.exchange(first)
    assert world.active() == []


def test_a_store_that_forgets_changes_nothing_for_a_living_holder() -> None:
    world = World.of([1.0, 1.0])
    well(world, 2 * TTL_US)
    before = world.active()
    epoch = world.candidates[before[0]].lease.epoch
    for _ in range(5):
        world.flush()
        well(world, TTL_US // 2)
        assert world.active() == before
    assert world.candidates[before[0]].lease.epoch == epoch


def test_an_answer_that_was_lost_is_made_up_for() -> None:
    """The take stands although its answer was lost: the next look confirms it, as of then."""
    world = World.of([1.0, 1.0])
    world.exchange(0)
    world.advance(TTL_US)
    world.ask(0)
    world.execute(0)
    world.answer(0, lost=True)
    assert world.active() == []
    world.advance(TTL_US // 8)
    world.exchange(0)
    assert world.active() == [0]


def test_standby_knows_who_leads() -> None:
    world = World.of([1.0, 1.0])
    well(world, 2 * TTL_US)
    [first] = world.active()
    assert world.candidates[1 - first].lease.leader_address == f"host{first}:1"
    assert world.candidates[first].lease.leader_address == ""


def _adversities() -> None:
    for seed in range(60):
        adversity(World.of([1.0, 1.0, 1.0], Trusting), random.Random(seed), 1_000)


def due(world: World, number: int) -> bool:
    candidate = world.candidates[number]
    return candidate.now_us(world.true_us) >= candidate.lease.due_us


def well(world: World, us: int) -> None:
    """Time passes in which everybody asks when it is due, and is answered."""
    world.asked.clear()
    world.answers.clear()
    until = world.true_us + us
    while world.true_us < until:
        world.advance(TTL_US // 50)
        for number in range(len(world.candidates)):
            if due(world, number):
                world.exchange(number)
