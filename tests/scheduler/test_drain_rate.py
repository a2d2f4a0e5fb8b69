"""An honest Retry-After."""

import pytest

from tests.scheduler.support import SECOND
from weir_scheduler.queues.drain_rate import DrainRate


@pytest.mark.parametrize("seconds", [2, 10, 60])
def test_the_rate_is_right_from_early_on(seconds: int) -> None:
    rate = DrainRate()
    for at in range(5 * seconds):
        rate.add(at * SECOND // 5)
    assert rate.per_second(seconds * SECOND) == pytest.approx(5, rel=0.15)
    assert rate.seconds_for(50, seconds * SECOND) == pytest.approx(10, abs=2)


def test_a_queue_that_stands_still_promises_nothing() -> None:
    rate = DrainRate()
    assert rate.seconds_for(1, 0) is None
    rate.add(0)
    assert rate.seconds_for(1, 300 * SECOND) is None


def test_it_is_bounded_on_both_sides() -> None:
    rate = DrainRate()
    for _ in range(1_000):
        rate.add(0)
    assert rate.seconds_for(1, SECOND) == 1
    assert rate.seconds_for(10**9, SECOND) == 300
