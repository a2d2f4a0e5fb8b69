"""What tenants get of a pool, as operators see it."""

from tests.scheduler.support import Bench, FixedRules
from weir_scheduler.dispatch.pool_view import PoolStatus
from weir_scheduler.queues.recent_service import WINDOW_US, RecentService
from weir_scheduler.rules.rules import WorkerRules

ONE = WorkerRules(1, 65_536, 512, 1)


def seen(bench: Bench) -> PoolStatus:
    (status,) = bench.scheduler.pools()
    return status


def test_service_is_what_was_charged_and_runs_and_waits_are_told() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("a", "t")
    bench.enqueue("b", "u")
    (first,) = bench.out.dispatches
    told = {one.tenant_id: (one.served, one.running) for one in seen(bench).services}
    assert told == {"t": (10, 1), "u": (0, 0)}
    bench.end(first, output=7)
    # Prompt tokens by 1, output tokens by 2.
    told = {one.tenant_id: (one.served, one.running) for one in seen(bench).services}
    assert told == {"t": (10 + 2 * 7, 0), "u": (10, 1)}


def test_the_counter_of_who_waits_is_what_it_is_ahead_of_the_least() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    for number in range(3):
        bench.enqueue(f"a{number}", "t")
        bench.enqueue(f"b{number}", "u")
    bench.end(bench.out.dispatches[0], output=20)
    counters = {one.tenant_id: one.counter for group in seen(bench).groups for one in group.most}
    assert counters["u"] == 0
    # The second was lifted to the 10 of the first when it came, and 10 was charged to it; 20
    # tokens of output are of the first alone.
    assert counters["t"] == (10 + 2 * 20) - (10 + 10)


def test_the_window_slides_and_what_is_given_back_counts_as_nothing() -> None:
    service = RecentService()
    service.add("t", 100, 0)
    service.add("u", 5, WINDOW_US // 2)
    service.add("u", -9, WINDOW_US // 2)
    assert service.totals(WINDOW_US // 2) == {"t": 100}
    assert service.totals(WINDOW_US * 2) == {}


def test_one_slot_knows_a_bounded_number_of_tenants() -> None:
    service = RecentService()
    for number in range(2_000):
        service.add(f"t{number}", 1, 0)
    assert len(service.totals(0)) == 1_024
