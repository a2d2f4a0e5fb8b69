"""The bucket against a model in exact fractions, and the edge cases that it meets."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_core.bucket import MAX_UNITS, BucketShape, BucketState
from weir_core.errors import InvalidField

shapes = st.builds(
    BucketShape,
    capacity=st.integers(1, 10**9),
    refill=st.integers(1, 10**9),
    period_ms=st.sampled_from([1, 7, 1000, 60_000, 86_400_000]),
)


@given(shapes, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), max_size=30))
def test_level_equals_the_exact_fraction(shape: BucketShape, steps: list[tuple[int, int]]) -> None:
    state, exact, now = shape.full(0), Fraction(shape.capacity), 0
    for elapsed, amount in steps:
        now += elapsed
        state = shape.debited(shape.refilled(state, now), amount)
        flowed = Fraction(elapsed * shape.refill, shape.period_ms)
        exact = min(Fraction(shape.capacity), exact + flowed) - amount
        assert state.level + Fraction(state.parts, shape.period_ms) == exact
        assert shape.level(state) == exact.__floor__()


@given(shapes, st.integers(0, 10**9), st.integers(1, 10**9))
def test_wait_is_the_first_millisecond_at_which_it_fits(
    shape: BucketShape, taken: int, amount: int
) -> None:
    state = shape.debited(shape.full(0), taken)
    wait = shape.wait_ms(state, amount)
    if amount > shape.capacity:
        assert wait is None or wait == 0
        return
    assert wait is not None
    assert shape.level(shape.refilled(state, wait)) >= amount
    if wait > 0:
        assert shape.level(shape.refilled(state, wait - 1)) < amount


def test_reading_often_neither_mints_nor_loses() -> None:
    shape = BucketShape(capacity=1000, refill=1, period_ms=60_000)
    often = once = shape.debited(shape.full(0), 1000)
    for now in range(0, 600_001, 7):
        often = shape.refilled(often, now)
    assert shape.refilled(often, 600_001) == shape.refilled(once, 600_001)
    assert shape.level(often) == 9
    assert shape.level(shape.refilled(often, 600_000)) == 10


def test_refund_after_refill_to_full_stays_at_capacity() -> None:
    shape = BucketShape(capacity=10, refill=10, period_ms=1000)
    full = shape.refilled(shape.debited(shape.full(0), 5), 5000)
    assert shape.level(shape.credited(full, 5)) == 10


def test_debt_is_repaid_before_anything_fits() -> None:
    shape = BucketShape(capacity=10, refill=10, period_ms=1000)
    state = shape.debited(shape.full(0), 30)
    assert shape.level(state) == -20
    assert shape.take(state, 1, 0) == (state, 2100)
    after, wait = shape.take(state, 1, 2100)
    assert wait == 0
    assert shape.level(after) == 0


def test_clock_going_back_an_hour_mints_nothing_and_locks_nobody_out() -> None:
    shape = BucketShape(capacity=10, refill=10, period_ms=60_000)
    hour = 3_600_000
    empty = BucketState(0, 0, hour)
    back = shape.refilled(empty, 0)
    assert back == BucketState(0, 0, 0)
    assert shape.level(shape.refilled(back, 60_000)) == 10
    little = shape.refilled(empty, hour - 59_000)
    assert little == empty
    assert shape.take(empty, 1, hour - 59_000)[1] == 6_000 + 59_000


def test_clock_going_forward_a_day_fills_to_capacity_only() -> None:
    shape = BucketShape(capacity=10, refill=10, period_ms=1000)
    assert shape.level(shape.refilled(shape.debited(shape.full(0), 10), 86_400_000)) == 10


def test_nothing_flows_into_a_bucket_without_refill() -> None:
    shape = BucketShape(capacity=5, refill=0, period_ms=1000)
    after, wait = shape.take(shape.debited(shape.full(0), 5), 1, 10**9)
    assert wait is None
    assert shape.level(after) == 0


@given(shapes, shapes, st.integers(0, 10**9))
def test_reshape_keeps_use(old: BucketShape, new: BucketShape, taken: int) -> None:
    state = old.debited(old.full(0), taken)
    level = old.level(state)
    expected = min(new.capacity, level + max(0, new.capacity - old.capacity))
    assert new.level(old.reshaped(state, new)) == expected


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, 1.0, True, "10", None, 2**53, 2**63, [1] * 10**5]
)
def test_hostile_numbers_are_refused(value: object) -> None:
    with pytest.raises(InvalidField, match=r"capacity is .*; it must be an integer"):
        BucketShape.of(value, 1, 1000)
    with pytest.raises(InvalidField, match="refill"):
        BucketShape.of(1, value, 1000)
    with pytest.raises(InvalidField, match="period"):
        BucketShape.of(1, 1, value if value is not True else 0)


def test_largest_numbers_are_kept() -> None:
    shape = BucketShape.of(MAX_UNITS, MAX_UNITS, 1)
    assert shape.level(shape.full(0)) == MAX_UNITS
    assert BucketShape.of(-0, 0, 1).capacity == 0
