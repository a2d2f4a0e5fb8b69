"""A decision of the whole scheduler grows at most with the logarithm of what waits.

Counted, not timed: the lines that the scheduler executes (see `bench/scheduler_scale.py` for
times). What grows with the queue and not with the decision would be 32 times as long here.
"""

import pytest

from tests.scheduler.policies.counting import counted
from tests.scheduler.support import Bench, FixedRules, new_request
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.rules.queue_rules import FairQueue, QueueRules
from weir_scheduler.rules.rules import Isolation

SMALL, LARGE = 50, 1_600
CONFIGURATIONS = {
    "shared": FixedRules(isolation=Isolation.SHARED),
    "tokens": FixedRules(),
    "locality": FixedRules(queue=QueueRules(fair_queue=FairQueue.LOCALITY)),
}


def lines_of_a_decision(rules: FixedRules, waiting: int, decisions: int = 25) -> float:
    """A place becomes free, the next request goes, another arrives, one leaves unserved."""
    rules.max_queued_requests, rules.queue_timeout_us = 10**6, 10**12
    # Announcements are gathered over tenants, of which the small queue has few.
    bench = Bench(rules, announce_us=10**12)
    bench.worker("w1", max_concurrent_requests=1, total_kv_blocks=100_000)
    for number in range(waiting):
        bench.scheduler.enqueue("gw", _request(number, waiting))
    bench.scheduler.pump()
    with counted() as tally:
        for number in range(waiting, waiting + decisions):
            bench.clock.advance_us(10_000)
            bench.scheduler.enqueue("gw", _request(number, waiting))
            bench.end(bench.out.dispatches[-1], 3)
            bench.scheduler.withdraw("gw", f"r{waiting - (number - waiting) - 1}")
            bench.scheduler.pump()
    assert len(bench.out.dispatches) > decisions
    assert bench.scheduler.waiting >= waiting - decisions - 1
    return tally.lines / decisions


def _request(number: int, waiting: int) -> NewRequest:
    tenant = f"t{number % (waiting // 10)}"
    return new_request(
        f"r{number}", tenant, priority=number % 5, prompt_tokens=1 + number % 13,
        prefix_hashes=(bytes([number % 7]) * 32,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("turns", "policy"),
    [("shared", "priority"), ("tokens", "fifo"), ("locality", "shortest_remaining")],
)
def test_a_decision_grows_at_most_with_the_logarithm(turns: str, policy: str) -> None:
    """Every combination of queues alone: `policies/test_conformance.py`."""
    rules = CONFIGURATIONS[turns]
    rules.policy = policy
    assert lines_of_a_decision(rules, LARGE) <= 1.5 * lines_of_a_decision(rules, SMALL)


def test_a_dispatch_is_not_news_for_everybody_behind_it() -> None:
    """Of 400 that wait, each dispatch moves all by one place; few hear of it each time."""
    bench = Bench(FixedRules(queue_timeout_us=10**12))
    bench.worker("w1", max_concurrent_requests=1)
    for number in range(401):
        bench.scheduler.enqueue("gw", _request(number, 10))
    bench.advance(1_000_000)
    told = len(bench.out.positions)
    assert {request_id for request_id, _, _ in bench.out.positions} >= {"r1", "r400"}
    for _ in range(50):
        bench.end(bench.out.dispatches[-1], 3)
        bench.advance(200_000)
    assert 50 < len(bench.out.positions) - told < 50 * 80
    assert bench.out.positions[-1][1] <= 1_000
