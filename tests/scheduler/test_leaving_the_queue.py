"""Every way out of the queue, and what the caller is told."""

from itertools import pairwise

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, new_request
from weir_core.errors import Reason
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_scheduler.rules.rules import TenantRules, WorkerRules

ONE = WorkerRules(1, 65_536, 512, 1)


def busy(**fields: object) -> Bench:
    """One worker, occupied by request `run`."""
    bench = Bench(FixedRules(workers=ONE, **fields))  # type: ignore[arg-type]
    bench.worker()
    bench.enqueue("run", "other")
    bench.start(bench.out.dispatches[0])
    return bench


def test_withdrawn_from_the_queue_it_never_runs() -> None:
    bench = busy()
    bench.enqueue("a")
    bench.scheduler.withdraw(GATEWAY, "a")
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["run"]
    assert bench.seen.exits[-1] == ("a", QueueExit.WITHDRAWN)
    assert bench.scheduler.requests == 0


def test_withdrawn_while_running_it_is_aborted_and_its_place_freed_by_the_worker() -> None:
    bench = busy()
    bench.enqueue("next")
    run = bench.out.dispatches[0]
    bench.scheduler.withdraw(GATEWAY, "run")
    bench.scheduler.pump()
    assert bench.out.aborts == [("w1", run.key)]
    bench.scheduler.finish(GATEWAY, run.key, None)
    bench.report()
    assert bench.dispatched_ids() == ["run"]
    bench.end(run)
    assert bench.dispatched_ids() == ["run", "next"]


def test_the_queue_timeout_gives_a_retry_after_from_the_drain_rate() -> None:
    bench = busy(queue_timeout_us=10 * SECOND)
    for number in range(20):
        bench.enqueue(f"a{number}")
    for at in range(10):
        bench.advance_reporting(SECOND)
        bench.end(bench.out.dispatches[at])
    bench.advance_reporting(SECOND)
    timed_out = [cause for _, cause in bench.out.rejections]
    assert timed_out
    assert {cause.reason for cause in timed_out} == {Reason.QUEUE_TIMEOUT}
    # About one a second leaves: each is told a moment of its own, behind the last.
    told = [cause.retry_after_s or 0 for cause in timed_out]
    assert 1 <= told[0] <= 10
    assert all(later > earlier for earlier, later in pairwise(told))
    assert "10.0 s" in timed_out[0].message
    assert "queue_timeout_ms" in timed_out[0].message


def test_offline_work_may_wait_longer_than_the_queue_timeout() -> None:
    bench = busy(queue_timeout_us=SECOND)
    bench.enqueue("offline", request_class=RequestClass.BATCH)
    bench.advance_reporting(60 * SECOND)
    assert bench.out.rejections == []


def test_a_deadline_ends_the_wait() -> None:
    bench = busy()
    deadline = bench.clock.now_us() + 2 * SECOND
    bench.enqueue("a", deadline_wall_us=deadline, request_class=RequestClass.BATCH)
    bench.advance_reporting(3 * SECOND)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("a", Reason.DEADLINE_EXCEEDED)


def test_a_deadline_already_passed_is_refused_at_once() -> None:
    bench = busy()
    bench.enqueue("a", deadline_wall_us=bench.clock.now_us() - 1)
    assert bench.out.rejections[0][1].reason is Reason.DEADLINE_EXCEEDED


def test_the_tenants_queue_limit_names_limit_and_numbers() -> None:
    bench = busy()
    bench.rules.tenants["t"] = TenantRules(1, 0, 2)
    for name in "abc":
        bench.enqueue(name)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("c", Reason.QUEUE_FULL)
    assert "max_queued_requests is 2" in cause.message
    assert cause.retry_after_s is not None
    bench.enqueue("neighbour", "elsewhere")
    assert len(bench.out.rejections) == 1


def test_a_models_queue_limit_shows_no_numbers_of_others() -> None:
    bench = busy(max_queued_requests=3)
    for number in range(4):
        bench.enqueue(f"a{number}", f"tenant{number}")
    cause = bench.out.rejections[0][1]
    assert cause.reason is Reason.QUEUE_FULL
    assert "model" in cause.message
    assert not any(character.isdigit() for character in cause.message)


def test_the_services_queue_limit() -> None:
    bench = Bench(FixedRules(workers=ONE), max_queued_requests=2)
    for name in "abc":
        bench.enqueue(name)
    assert "service" in bench.out.rejections[0][1].message


def test_a_request_that_was_accepted_before_is_not_refused_for_a_full_queue() -> None:
    bench = Bench(FixedRules(workers=ONE), max_queued_requests=1)
    bench.enqueue("a")
    bench.enqueue("b", attempts=1)
    assert bench.out.rejections == []


def test_without_any_worker_the_wait_is_short_and_says_so() -> None:
    bench = Bench()
    bench.enqueue("a")
    bench.advance(SECOND)
    assert bench.out.positions == [("a", 1, WaitReason.NO_WORKER)]
    bench.advance(9 * SECOND)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("a", Reason.NO_WORKER)
    assert "model m" in cause.message


def test_a_worker_that_comes_in_time_serves_what_waited() -> None:
    bench = Bench()
    bench.enqueue("a")
    bench.advance(9 * SECOND)
    bench.worker()
    assert bench.dispatched_ids() == ["a"]
    bench.advance_reporting(5 * SECOND)
    assert bench.out.rejections == []


def test_an_unknown_model_is_refused() -> None:
    bench = Bench()
    bench.enqueue("a", model="nowhere")
    assert bench.out.rejections[0][1].reason is Reason.MODEL_NOT_FOUND


def test_the_end_of_a_gateway_drops_its_queue_and_aborts_what_runs() -> None:
    bench = busy()
    bench.enqueue("a")
    bench.scheduler.enqueue("gw2", new_request("mine"))
    bench.scheduler.gateway_lost(GATEWAY)
    bench.scheduler.pump()
    assert bench.seen.exits[-1] == ("a", QueueExit.GATEWAY_LOST)
    assert bench.out.aborts == [("w1", bench.out.dispatches[0].key)]
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["run", "mine"]


def test_a_repeated_enqueue_changes_nothing_and_another_gateways_is_refused() -> None:
    bench = busy()
    bench.enqueue("a")
    bench.enqueue("a")
    assert bench.scheduler.waiting == 1
    bench.scheduler.enqueue("gw2", new_request("a"))
    assert len(bench.out.rejections) == 1
    bench.scheduler.withdraw("gw2", "a")
    assert bench.scheduler.waiting == 1


def test_a_closing_scheduler_takes_nothing_new_but_works_off_what_waits() -> None:
    bench = busy()
    bench.enqueue("a")
    bench.scheduler.close()
    bench.enqueue("b")
    assert bench.out.rejections[0][1].reason is Reason.DRAINING
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["run", "a"]


def test_positions_are_per_tenant_and_sent_when_they_change() -> None:
    bench = busy()
    for name in ("a1", "a2"):
        bench.enqueue(name, "a")
    bench.enqueue("b1", "b")
    bench.advance(SECOND)
    first = {request_id: (position, reason) for request_id, position, reason in bench.out.positions}
    assert first["a1"] == (1, WaitReason.WORKER_FULL)
    assert first["a2"] == (2, WaitReason.BEHIND_OTHERS)
    assert first["b1"][0] == 1
    sent = len(bench.out.positions)
    bench.advance_reporting(2 * SECOND)
    assert len(bench.out.positions) == sent
    bench.end(bench.out.dispatches[0])
    bench.advance(SECOND)
    assert ("a2", 1, WaitReason.BEHIND_OTHERS) in bench.out.positions


def test_positions_of_a_long_queue_come_in_bounded_rounds() -> None:
    bench = Bench(announce_budget=50)
    for tenant in range(10):
        for number in range(20):
            bench.scheduler.enqueue(GATEWAY, new_request(f"{tenant}-{number}", f"t{tenant}"))
    bench.scheduler.pump()
    bench.clock.advance_us(100_000)
    bench.scheduler.pump()
    assert 0 < len(bench.out.positions) <= 60
    bench.advance(SECOND)
    assert len({request_id for request_id, _, _ in bench.out.positions}) == 200


def test_a_clock_ahead_gains_no_place_and_a_wall_jump_moves_nobody() -> None:
    bench = busy()
    bench.enqueue("first", arrival_wall_us=bench.clock.now_us() + 100 * SECOND)
    bench.clock.advance_us(1_000)
    bench.enqueue("second", arrival_wall_us=bench.clock.now_us())
    bench.clock.jump_us(3_600 * SECOND)
    bench.scheduler.pump()
    assert bench.out.rejections == []
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids()[-1] == "first"


def test_one_enqueued_again_after_a_lost_scheduler_keeps_its_place() -> None:
    bench = busy()
    bench.enqueue("fresh")
    bench.enqueue("old", arrival_wall_us=bench.clock.now_us() - 20 * SECOND, attempts=1)
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids()[-1] == "old"
    assert bench.out.dispatches[-1].key.number == 2
