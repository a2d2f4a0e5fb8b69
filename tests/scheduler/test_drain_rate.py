"""How fast a queue empties."""

import pytest

from tests.scheduler.support import SECOND
from weir_scheduler.queues.drain_rate import DrainRate


@pytest.mark.parametrize("seconds", [2, 10, 60])
def test_the_rate_is_right_from_early_on(seconds: int) -> None:
    rate = DrainRate()
    for at in range(5 * seconds):
        rate.add(at * SECOND // 5, amount=100)
    assert rate.per_second(seconds * SECOND) == pytest.approx(5, rel=0.15)
    assert rate.amount_per_second(seconds * SECOND) == pytest.approx(500, rel=0.15)


def test_a_queue_that_stands_still_has_none() -> None:
    rate = DrainRate()
    assert rate.per_second(0) == 0
    rate.add(0)
    assert rate.per_second(300 * SECOND) < 0.01
