"""A scheduler that takes over from another: what runs, what waits, and who is missing."""

from typing import Any

import pytest

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, new_request, worker_info
from weir_core.errors import Reason
from weir_scheduler.rules.rules import TenantRules, WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptProgress, AttemptUsage

ONE = WorkerRules(1, 65_536, 512, 1)
RUNS = AttemptKey("runs", 1)


def adopt(bench: Bench, request_id: str = "runs", *, worker: str = "w1", **fields: Any) -> None:
    """As a gateway tells it that runs already."""
    values: dict[str, Any] = {"attempts": 1, "running_worker_id": worker} | fields
    bench.enqueue(request_id, **values)


def runs_at(bench: Bench, worker_id: str = "w1", key: AttemptKey = RUNS, output: int = 3) -> None:
    """The worker registers with an attempt of the scheduler before, and reports it."""
    bench.scheduler.register_worker(worker_info(worker_id), [key])
    progress = AttemptProgress(key, AttemptUsage(10, 0, output), 1)
    bench.running[worker_id] = {key: progress}
    bench.blocks[worker_id] = 100
    bench.report(worker_id)


def ended(bench: Bench, key: AttemptKey = RUNS, worker_id: str = "w1") -> None:
    bench.running[worker_id].pop(key)
    bench.report(worker_id, finished=[AttemptEnd(key, AttemptUsage(10, 0, 5))])
    bench.scheduler.finish(GATEWAY, key, AttemptUsage(10, 0, 5))
    bench.scheduler.pump()


def at_rest(bench: Bench) -> bool:
    scheduler = bench.scheduler
    return not (scheduler.requests or scheduler.attempts or scheduler.waiting)


@pytest.mark.parametrize("first", ["worker", "gateway"])
def test_what_runs_keeps_its_place_and_gives_it_once(first: str) -> None:
    """Whether its worker or its gateway comes first: nothing is dispatched for it again."""
    bench = Bench(FixedRules(workers=ONE))
    if first == "worker":
        runs_at(bench)
    adopt(bench)
    bench.enqueue("waits")
    if first == "gateway":
        runs_at(bench)
    assert bench.dispatched_ids() == []
    assert bench.requests_of("w1") == 1
    ended(bench)
    assert bench.dispatched_ids() == ["waits"]
    bench.end(bench.out.dispatches[0])
    assert at_rest(bench)


@pytest.mark.parametrize("first", ["worker", "gateway"])
def test_what_runs_counts_in_the_bounds_of_its_worker(first: str) -> None:
    """Its cost and its answers: the worker itself tells only what was used so far."""
    bench = Bench(FixedRules(workers=WorkerRules(4, 100, 512, 4)))
    if first == "worker":
        runs_at(bench)
    adopt(bench, prompt_tokens=10, max_new_tokens=100, choices=2)
    if first == "gateway":
        runs_at(bench)
    bench.report()
    bench.enqueue("costly", prompt_tokens=45)
    assert bench.dispatched_ids() == []
    bench.scheduler.withdraw(GATEWAY, "costly")
    bench.enqueue("wide", choices=3)
    assert bench.dispatched_ids() == []
    ended(bench)
    assert bench.dispatched_ids() == ["wide"]


@pytest.mark.parametrize("first", ["worker", "gateway"])
def test_a_long_prompt_that_runs_counts_as_long(first: str) -> None:
    workers = WorkerRules(8, 65_536, 512, 8, max_running_long=1)
    bench = Bench(FixedRules(workers=workers, long_context_threshold=50))
    if first == "worker":
        runs_at(bench)
    adopt(bench, prompt_tokens=60)
    if first == "gateway":
        runs_at(bench)
    bench.enqueue("long", prompt_tokens=60)
    bench.enqueue("short")
    assert bench.dispatched_ids() == ["short"]
    ended(bench)
    assert bench.dispatched_ids() == ["short", "long"]


def test_what_runs_counts_in_its_tenants_cap() -> None:
    rules = FixedRules(tenants={"t": TenantRules(1, 1, 0)})
    bench = Bench(rules)
    runs_at(bench)
    adopt(bench)
    bench.enqueue("capped")
    bench.enqueue("other", "u")
    assert bench.dispatched_ids() == ["other"]
    ended(bench)
    assert bench.dispatched_ids() == ["other", "capped"]


def test_what_runs_and_fails_is_tried_again_with_the_next_number() -> None:
    bench = Bench()
    runs_at(bench)
    bench.worker("w2")
    adopt(bench)
    bench.scheduler.attempt_failed(GATEWAY, RUNS, Reason.WORKER_LOST, worker_fault=True)
    bench.scheduler.pump()
    [again] = bench.out.dispatches
    assert (again.key, again.worker.worker_id) == (AttemptKey("runs", 2), "w2")


@pytest.mark.parametrize("streamed", [False, True])
def test_what_ran_on_a_worker_that_never_comes_is_moved_or_lost(streamed: bool) -> None:
    bench = Bench()
    bench.worker("w2")
    adopt(bench, worker="gone")
    if streamed:
        bench.scheduler.first_token(GATEWAY, RUNS)
    bench.advance_reporting(4 * SECOND)
    assert bench.out.dispatches == []
    bench.advance_reporting(2 * SECOND)
    if streamed:
        assert [key for key, _ in bench.out.lost] == [RUNS]
        assert at_rest(bench)
    else:
        assert [d.key for d in bench.out.dispatches] == [AttemptKey("runs", 2)]


def test_a_start_that_never_reached_its_worker_is_tried_again() -> None:
    """It was on its way when the scheduler died; its grant has expired since."""
    bench = Bench()
    bench.worker("w1")
    adopt(bench)
    assert bench.requests_of("w1") == 1
    bench.advance_reporting(3 * SECOND)
    assert [d.key for d in bench.out.dispatches] == [AttemptKey("runs", 2)]


def test_the_queue_timeout_counts_the_wait_at_the_scheduler_before() -> None:
    bench = Bench(FixedRules(workers=ONE, queue_timeout_us=10 * SECOND))
    bench.worker()
    bench.enqueue("busy")
    bench.start(bench.out.dispatches[0])
    began_us = bench.clock.now_us() - 8 * SECOND
    bench.enqueue("old", arrival_wall_us=began_us, waiting_since_wall_us=began_us)
    bench.advance_reporting(SECOND)
    assert bench.out.rejections == []
    bench.advance_reporting(SECOND + SECOND // 2)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("old", Reason.QUEUE_TIMEOUT)


def test_what_waited_before_is_not_refused_for_want_of_room() -> None:
    bench = Bench(FixedRules(workers=ONE, max_queued_requests=1))
    bench.worker()
    for name in ("a", "b", "c"):
        bench.enqueue(name, waiting_since_wall_us=bench.clock.now_us())
    assert bench.out.rejections == []
    bench.enqueue("new")
    assert [name for name, _ in bench.out.rejections] == ["new"]


def test_the_hold_puts_the_requests_of_all_gateways_in_order() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.scheduler.take_over(SECOND)
    bench.worker()
    for number, (name, age_s) in enumerate([("late", 1), ("early", 3), ("middle", 2)]):
        arrived_us = bench.clock.now_us() - age_s * SECOND
        request = new_request(name, arrival_wall_us=arrived_us, waiting_since_wall_us=arrived_us)
        bench.scheduler.enqueue(f"gw{number}", request)
        bench.scheduler.pump()
    assert bench.out.dispatches == []
    bench.advance(SECOND)
    for at in range(3):
        bench.end(bench.out.dispatches[at])
    assert bench.dispatched_ids() == ["early", "middle", "late"]


def test_the_hold_ends_soon_after_the_last_that_is_expected_has_come() -> None:
    bench = Bench()
    bench.scheduler.take_over(10 * SECOND)
    bench.scheduler.gateway_came(GATEWAY)
    bench.enqueue("waits")
    bench.scheduler.expect([GATEWAY, "w1", "w2"])
    bench.worker("w1")
    bench.advance(SECOND)
    assert bench.out.dispatches == []
    bench.worker("w2")
    bench.advance(SECOND // 20)
    assert bench.out.dispatches == []
    bench.advance(SECOND // 10)
    assert bench.dispatched_ids() == ["waits"]


def test_the_hold_ends_in_its_time_if_somebody_never_comes() -> None:
    bench = Bench()
    bench.scheduler.take_over(2 * SECOND)
    bench.scheduler.expect([GATEWAY, "w1", "dead"])
    bench.scheduler.gateway_came(GATEWAY)
    bench.worker("w1")
    bench.enqueue("waits")
    bench.advance_reporting(SECOND)
    assert bench.out.dispatches == []
    bench.advance_reporting(SECOND)
    assert bench.dispatched_ids() == ["waits"]


def test_nothing_is_too_large_before_every_worker_has_had_time_to_come() -> None:
    bench = Bench()
    bench.scheduler.take_over(SECOND)
    bench.worker("small", max_context_tokens=100)
    bench.enqueue("large", prompt_tokens=500)
    bench.advance(SECOND // 2)
    assert bench.out.rejections == []
    bench.worker("large", max_context_tokens=1_000)
    bench.advance(SECOND)
    assert [d.worker.worker_id for d in bench.out.dispatches] == ["large"]


def test_one_that_stands_by_has_forgotten_everything() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.worker("w2")
    for name in ("a", "b", "c", "d"):
        bench.enqueue(name)
    bench.start(bench.out.dispatches[0], output=2)
    bench.first_token(bench.out.dispatches[0])
    bench.scheduler.vacate()
    assert at_rest(bench)
    assert bench.scheduler.workers() == []
    bench.advance(700 * SECOND, step_us=SECOND)
    bench.worker("w3")
    bench.enqueue("a")
    assert [(d.key.request_id, d.worker.worker_id) for d in bench.out.dispatches][-1] == ("a", "w3")


def test_a_broken_stream_ends_nothing_that_runs() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("runs")
    bench.enqueue("waits")
    bench.start(bench.out.dispatches[0], output=2)
    bench.scheduler.gateway_away(GATEWAY)
    assert bench.scheduler.waiting == 0
    bench.advance_reporting(SECOND)
    bench.scheduler.gateway_away(GATEWAY)
    adopt(bench)
    bench.enqueue("waits", waiting_since_wall_us=bench.clock.now_us())
    bench.advance_reporting(5 * SECOND)
    assert bench.out.aborts == []
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["runs", "waits"]


def test_a_gateway_that_does_not_come_back_has_its_running_requests_aborted() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("runs")
    bench.start(bench.out.dispatches[0], output=2)
    bench.scheduler.gateway_away(GATEWAY)
    bench.advance_reporting(SECOND)
    assert bench.out.aborts == []
    bench.advance_reporting(2 * SECOND)
    assert bench.out.aborts == [("w1", RUNS)]


def test_a_dispatch_that_its_gateway_never_heard_of_is_made_again() -> None:
    """It was on the stream that broke; the older attempt can no longer begin."""
    bench = Bench()
    bench.worker()
    bench.enqueue("runs")
    bench.scheduler.gateway_away(GATEWAY)
    bench.enqueue("runs", waiting_since_wall_us=bench.clock.now_us())
    assert [d.key.number for d in bench.out.dispatches] == [1, 2]
    assert bench.out.aborts == [("w1", RUNS)]
