"""Retries obey the server, the deadline and the budget."""

from contextlib import suppress

import pytest
from grpc import StatusCode

from weir_client import ConflictError, LimitExceeded, RetryPolicy, Unavailable, WeirClientError
from weir_client.attempts import Attempts
from weir_client.retry_budget import RetryBudget

AWAY = Unavailable(StatusCode.UNAVAILABLE, "away")


def limited(retry_after_s: float | None, *, futile: bool = False) -> LimitExceeded:
    code = StatusCode.RESOURCE_EXHAUSTED
    return LimitExceeded(code, "no", retry_after_s=retry_after_s, futile=futile)


def test_a_named_wait_is_never_cut_and_spread_by_a_tenth() -> None:
    policy = RetryPolicy()
    assert policy.delay_s(1, limited(2.0), lambda least, _: least) == 2.0
    assert policy.delay_s(1, limited(2.0), lambda _, most: most) == pytest.approx(2.2)


def test_waits_without_a_name_have_full_jitter() -> None:
    policy = RetryPolicy(attempts=4, first_delay_s=1.0)
    assert policy.delay_s(2, AWAY, lambda least, _: least) == 0.0
    assert policy.delay_s(2, AWAY, lambda _, most: most) == 2.0


@pytest.mark.parametrize(
    "error",
    [
        limited(None),
        limited(9.0),
        limited(0.1, futile=True),
        Unavailable(StatusCode.UNAVAILABLE, "away", futile=True),
        ConflictError(StatusCode.ABORTED, "changed", reason="VERSION_CONFLICT"),
        WeirClientError(StatusCode.INTERNAL, "broken", retry_after_s=0.1),
    ],
)
def test_what_the_server_forbids_or_cannot_change_is_not_retried(error: WeirClientError) -> None:
    assert RetryPolicy().delay_s(1, error) is None


def test_an_earlier_attempt_that_still_runs_is_waited_for() -> None:
    running = ConflictError(StatusCode.ABORTED, "runs", reason="IDEMPOTENCY_IN_PROGRESS")
    assert RetryPolicy().delay_s(1, running) is not None


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    policy = RetryPolicy()
    attempts = Attempts(policy, RetryBudget(policy), timeout_s=5.0)
    assert 0 < attempts.begin() <= 5.0
    with pytest.raises(LimitExceeded):
        await attempts.wait_after(limited(6.0))


async def test_the_budget_bounds_retries_over_all_calls() -> None:
    policy = RetryPolicy(attempts=100, first_delay_s=0.0, budget=3, earned=0.5)
    budget = RetryBudget(policy)

    async def retries() -> int:
        attempts = Attempts(policy, budget, timeout_s=60)
        with suppress(Unavailable):
            while True:
                attempts.begin()
                await attempts.wait_after(AWAY)
        return attempts.made - 1

    assert await retries() == 3
    assert await retries() == 0
    budget.earn()
    assert await retries() == 0
    budget.earn()
    assert await retries() == 1


def test_successes_fill_the_budget_to_its_brim_and_not_beyond() -> None:
    budget = RetryBudget(RetryPolicy(budget=1, earned=1.0))
    for _ in range(5):
        budget.earn()
    assert [budget.spend(), budget.spend()] == [True, False]
