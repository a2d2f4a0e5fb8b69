"""Shares of a limit, and credit of a budget, by their bounds."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.ratelimiter.builders import bucket, in_flight, lease
from weir_core.bucket import MAX_UNITS, BucketShape
from weir_ratelimiter.domain.calendar import Calendar, Unit
from weir_ratelimiter.domain.limit import Kind, Layer, Limit, Resource
from weir_ratelimiter.store.base import LimitState
from weir_ratelimiter.store.degraded.credit import Credit
from weir_ratelimiter.store.degraded.shares import share_of

capacities = st.integers(0, MAX_UNITS)
replicas = st.integers(1, 1_000)

NOW_MS = 1_795_959_445_123
BUDGET = Limit(
    key="tenant:acme/budget",
    layer=Layer.TENANT,
    kind=Kind.WINDOW,
    resource=Resource.TOKENS,
    shape=BucketShape(10_000, 0, 1),
    knob="limit budget",
    calendar=Calendar(Unit.MONTH),
)


@given(capacity=capacities, live=replicas)
def test_shares_of_tokens_are_no_more_than_the_whole(capacity: int, live: int) -> None:
    share = share_of(bucket("tpm", Resource.TOKENS, capacity), live)
    assert share.capacity * live <= capacity
    assert share.shape.refill * live <= max(capacity, live)
    assert share.overdraws == (live > 1)


@given(capacity=capacities, live=replicas)
def test_shares_of_tokens_in_flight_let_a_larger_request_in_alone(capacity: int, live: int) -> None:
    share = share_of(in_flight("in_flight", capacity), live)
    assert share.capacity * live <= capacity
    assert share.overdraws == (live > 1)


@given(capacity=capacities, live=replicas)
def test_one_request_and_one_place_stay_unless_the_limit_is_nothing(
    capacity: int, live: int
) -> None:
    for limit in (bucket("rpm", Resource.REQUESTS, capacity), lease("parallel", capacity)):
        share = share_of(limit, live)
        assert min(1, capacity) <= share.capacity <= capacity
        assert share.capacity * live <= max(capacity, live)
        assert share.resource_name == limit.resource_name


def test_alone_the_share_is_the_limit() -> None:
    limit = bucket("tpm", Resource.TOKENS, 1_000)
    assert share_of(limit, 1) is limit


@given(remaining=st.integers(-10_000, 10_000), live=replicas, percent=st.integers(0, 100))
def test_credit_is_within_both_of_its_bounds(remaining: int, live: int, percent: int) -> None:
    credit = Credit(float(percent))
    window = Calendar(Unit.MONTH).window(NOW_MS).id
    credit.note([LimitState(BUDGET, remaining, 0, 0, window)])
    lent = credit.lent(BUDGET, live, NOW_MS).capacity
    assert 0 <= lent <= 10_000 * percent // 100
    assert lent * live <= max(0, remaining)


def test_credit_of_a_window_that_has_begun_since_is_of_an_unused_one() -> None:
    credit = Credit(100.0)
    credit.note([LimitState(BUDGET, 5, 0, 0, "2020-01")])
    assert credit.lent(BUDGET, 2, NOW_MS).capacity == 5_000


def test_credit_of_a_window_that_the_store_did_not_know_is_none() -> None:
    credit = Credit(100.0)
    window = Calendar(Unit.MONTH).window(NOW_MS)
    state = LimitState(BUDGET, 10_000, 0, 0, window.id)
    credit.note([msgspec.structs.replace(state, unseeded=window)])
    assert credit.lent(BUDGET, 1, NOW_MS).capacity == 0
