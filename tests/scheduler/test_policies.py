"""Orders within one queue, and aging in both directions."""

from tests.scheduler.support import SECOND, entry
from weir_scheduler.policies.named import POLICIES, policy_named
from weir_scheduler.policies.priority.priority import Priority
from weir_scheduler.policies.promotion import Promotion
from weir_scheduler.policies.shortest_remaining.shortest_remaining import ShortestRemaining
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.rounds.shared.shared_round import SharedRound
from weir_scheduler.rules.ordering_parameters import OrderingParameters

PROMOTE_EVERY = 4


def served(queue: SharedRound, count: int, now_us: int) -> list[str]:
    """The next dispatches."""
    ids = []
    for _ in range(count):
        head = queue.head(now_us)
        assert head is not None
        queue.dispatched(head, now_us)
        ids.append(head.request_id)
    return ids


def filled(policy: str, entries: list[QueueEntry]) -> SharedRound:
    queue = SharedRound(policy_named(policy))
    for item in entries:
        queue.add(item)
    return queue


def test_every_configured_policy_exists() -> None:
    assert set(POLICIES) == {"fifo", "priority", "shortest_remaining"}
    assert all(policy_named(name).name == name for name in POLICIES)


def test_fifo_goes_by_first_arrival_even_for_a_requeued_request() -> None:
    queue = filled("fifo", [entry("b", 2), entry("c", 3), entry("a", 1)])
    assert served(queue, 3, 0) == ["a", "b", "c"]


def test_priority_serves_the_urgent_first_and_equals_in_order() -> None:
    queue = filled(
        "priority", [entry("low", 1), entry("hi2", 3, priority=9), entry("hi1", 2, priority=9)]
    )
    assert served(queue, 3, 0) == ["hi1", "hi2", "low"]


def test_shortest_remaining_looks_at_prompt_and_predicted_output() -> None:
    queue = filled(
        "shortest_remaining",
        [
            entry("long", 1, prompt_tokens=10, predicted_output=500),
            entry("short", 2, prompt_tokens=50, predicted_output=5),
        ],
    )
    assert served(queue, 2, 0) == ["short", "long"]


def test_a_long_job_that_has_waited_goes_before_a_fresh_short_one() -> None:
    policy = ShortestRemaining(
        OrderingParameters(aging_us_per_token=20_000, promote_after_us=10**12)
    )
    long = entry("long", 1, prompt_tokens=500, predicted_output=0, arrival_us=0)
    fresh_before = entry("s", 2, prompt_tokens=10, predicted_output=0, arrival_us=9 * SECOND)
    fresh_after = entry("s", 2, prompt_tokens=10, predicted_output=0, arrival_us=10 * SECOND)
    # 490 tokens longer, 20 ms a token: 9.8 s of waiting make up for it.
    assert policy.key(fresh_before) < policy.key(long) < policy.key(fresh_after)


def test_the_unimportant_is_served_under_an_endless_stream_of_urgent_work() -> None:
    queue = SharedRound(Priority(OrderingParameters(promote_after_us=5 * SECOND)))
    queue.add(entry("old", 0, priority=0, arrival_us=0))
    now_us, order = 6 * SECOND, []
    for number in range(1, 40):
        queue.add(entry(f"urgent{number}", number, priority=100, arrival_us=now_us))
        order += served(queue, 1, now_us)
        if "old" in order:
            break
    assert order.index("old") < PROMOTE_EVERY


def test_an_aged_backlog_does_not_push_the_urgent_aside() -> None:
    queue = SharedRound(Priority(OrderingParameters(promote_after_us=5 * SECOND)))
    for number in range(100):
        queue.add(entry(f"old{number}", number, priority=0, arrival_us=number))
    now_us = 60 * SECOND
    for number in range(30):
        queue.add(entry(f"urgent{number}", 100 + number, priority=100, arrival_us=now_us))
    order = served(queue, 40, now_us)
    urgent = [at for at, request_id in enumerate(order) if request_id.startswith("urgent")]
    # At least three dispatches in four go by priority, the aged take the rest, oldest first.
    assert urgent[:6] == [0, 1, 2, 4, 5, 6]
    assert [i for i in order if i.startswith("old")] == [f"old{n}" for n in range(10)]


def test_of_the_aged_the_rth_oldest_waits_for_a_bounded_number_of_dispatches() -> None:
    queue = SharedRound(Priority(OrderingParameters(promote_after_us=1)))
    for number in range(10):
        queue.add(entry(f"old{number}", number, priority=0, arrival_us=number))
    order: list[str] = []
    for number in range(10, 100):
        queue.add(entry(f"new{number}", number, priority=50, arrival_us=50))
        order += served(queue, 1, 10 * SECOND)
    for rank in range(10):
        assert order.index(f"old{rank}") < PROMOTE_EVERY * (rank + 1)


def test_promotion_without_aging_never_happens() -> None:
    promotion = Promotion(None)
    for _ in range(10):
        promotion.dispatched(oldest=False)
    assert not promotion.due(0, 0, 10**15)
