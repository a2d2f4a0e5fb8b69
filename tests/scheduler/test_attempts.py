"""Attempts that fail, move, or end twice."""

import pytest

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules
from weir_core.errors import Reason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import WorkerState
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage

ONE = WorkerRules(1, 65_536, 512, 1)


def two_workers() -> Bench:
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    return bench


def test_a_failed_attempt_goes_to_another_worker_with_the_next_number() -> None:
    bench = two_workers()
    bench.enqueue("a")
    first = bench.out.dispatches[0]
    bench.fail(first)
    second = bench.out.dispatches[1]
    assert [request_id for request_id, _, _ in bench.out.requeues] == ["a"]
    assert bench.out.aborts == [(first.worker.worker_id, first.key)]
    assert second.worker.worker_id != first.worker.worker_id
    assert (first.key.number, second.key.number) == (1, 2)


def test_it_keeps_its_original_place() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.enqueue("a")
    bench.clock.advance_us(1_000)
    bench.enqueue("b")
    bench.fail(bench.out.dispatches[0])
    assert bench.out.requeues[0][2] == 1
    bench.worker("w2")
    assert bench.dispatched_ids() == ["a", "a"]


def test_attempts_are_bounded_and_the_last_reason_is_told() -> None:
    bench = Bench(max_attempts=3)
    for number in range(4):
        bench.worker(f"w{number}")
    bench.enqueue("a")
    for at in range(3):
        bench.fail(bench.out.dispatches[at], Reason.ENGINE_FAILED)
    assert len(bench.out.dispatches) == 3
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("a", Reason.ENGINE_FAILED)
    assert "attempt 3 of at most 3" in cause.message
    assert bench.scheduler.requests == 0


def test_with_one_worker_it_is_tried_again_after_a_pause() -> None:
    bench = Bench(retry_excluded_us=SECOND)
    bench.worker()
    bench.enqueue("a")
    bench.fail(bench.out.dispatches[0])
    bench.advance_reporting(SECOND // 2)
    assert len(bench.out.dispatches) == 1
    bench.advance_reporting(SECOND)
    assert [d.key.number for d in bench.out.dispatches] == [1, 2]


def test_with_no_worker_left_it_ends_with_the_reason_of_the_failure() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("a")
    bench.fail(bench.out.dispatches[0])
    bench.scheduler.worker_disconnected("w1")
    bench.advance(15 * SECOND)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("a", Reason.WORKER_LOST)
    assert "no live worker" in cause.message


def test_a_refused_grant_does_not_exclude_the_worker() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("a")
    bench.fail(bench.out.dispatches[0], Reason.GRANT_INVALID, worker_fault=False)
    assert len(bench.out.dispatches) == 2


def test_the_place_is_free_when_the_worker_says_so() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.enqueue("a")
    first = bench.out.dispatches[0]
    bench.start(first)
    bench.fail(first)
    bench.enqueue("b")
    bench.report()
    assert bench.dispatched_ids() == ["a"]
    bench.running["w1"].clear()
    bench.report(finished=[AttemptEnd(first.key, AttemptUsage())])
    assert bench.dispatched_ids() == ["a", "b"]


def test_an_end_without_a_word_frees_the_place_too() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("a")
    bench.enqueue("b")
    bench.start(bench.out.dispatches[0])
    bench.running["w1"].clear()
    bench.report()
    assert bench.dispatched_ids() == ["a", "b"]


def test_a_late_word_about_an_old_attempt_changes_nothing() -> None:
    bench = two_workers()
    bench.enqueue("a")
    first = bench.out.dispatches[0]
    bench.fail(first)
    second = bench.out.dispatches[1]
    bench.fail(first)
    bench.scheduler.finish(GATEWAY, first.key, AttemptUsage())
    bench.scheduler.pump()
    assert bench.scheduler.requests == 1
    assert bench.requests_of(second.worker.worker_id) == 1
    bench.start(second)
    bench.end(second)
    assert (bench.scheduler.requests, bench.scheduler.attempts) == (0, 1)
    ended = AttemptEnd(first.key, AttemptUsage())
    bench.report(first.worker.worker_id, finished=[ended])
    assert bench.scheduler.attempts == 0


def test_finishing_twice_and_in_either_order_releases_once() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(2, 65_536, 512, 2)))
    bench.worker()
    for name in "abcd":
        bench.enqueue(name)
    first, second = bench.out.dispatches
    usage = AttemptUsage(10, 0, 5)
    bench.scheduler.finish(GATEWAY, first.key, usage)
    bench.scheduler.finish(GATEWAY, first.key, usage)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["a", "b", "c"]
    bench.end(second)
    bench.scheduler.finish(GATEWAY, second.key, usage)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["a", "b", "c", "d"]


def test_an_increment_goes_at_the_arrival_deadline_and_the_next_report_decides() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("a")
    bench.report()
    assert bench.requests_of() == 1
    bench.advance(2 * SECOND)
    assert bench.requests_of() == 0
    # A late arrival is a running attempt like any other, and nothing was given away.
    bench.start(bench.out.dispatches[0])
    assert bench.requests_of() == 1
    assert bench.out.requeues == []


def test_an_attempt_that_never_arrives_is_tried_again_once_it_cannot_start_any_more() -> None:
    """By the clock of the worker, which is the one that refuses the expired grant."""
    bench = Bench()
    bench.worker()
    bench.enqueue("a")
    expires_us = bench.out.dispatches[0].expire_wall_us
    bench.advance(4 * SECOND)
    bench.report(load={"report_time_us": expires_us - 1})
    assert bench.out.requeues == []
    bench.report(load={"report_time_us": expires_us})
    assert [cause.reason for _, cause, _ in bench.out.requeues] == [Reason.WORKER_LOST]
    assert [d.key.number for d in bench.out.dispatches] == [1, 2]
    assert bench.scheduler.attempts == 1


def test_the_same_for_a_worker_that_does_not_stamp_its_reports() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("a")
    bench.advance(2 * SECOND)
    bench.report(load={"report_time_us": 0})
    assert bench.out.requeues == []
    bench.advance(SECOND // 2)
    bench.report(load={"report_time_us": 0})
    assert [cause.reason for _, cause, _ in bench.out.requeues] == [Reason.WORKER_LOST]
    assert [d.key.number for d in bench.out.dispatches] == [1, 2]
    assert bench.scheduler.attempts == 1


def test_a_first_token_counts_as_arrival() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("a")
    bench.first_token(bench.out.dispatches[0])
    bench.advance(3 * SECOND)
    bench.report()
    assert bench.out.requeues == []


def test_a_first_token_that_crosses_a_requeue_ends_the_second_try() -> None:
    bench = two_workers()
    bench.enqueue("a")
    first = bench.out.dispatches[0]
    bench.fail(first)
    second = bench.out.dispatches[1]
    bench.first_token(first)
    assert bench.out.lost[0][0] == first.key
    assert bench.out.aborts[-1] == (second.worker.worker_id, second.key)
    assert bench.scheduler.requests == 0


def test_a_dispatched_request_that_nobody_ends_is_forgotten_after_its_deadline() -> None:
    bench = Bench(linger_us=60 * SECOND)
    bench.worker()
    bench.enqueue("a", deadline_wall_us=bench.clock.now_us() + 10 * SECOND)
    bench.start(bench.out.dispatches[0])
    bench.advance_reporting(69 * SECOND, step_us=SECOND)
    assert bench.scheduler.requests == 1
    bench.advance_reporting(2 * SECOND)
    assert bench.scheduler.requests == 0
    assert bench.out.aborts == [("w1", bench.out.dispatches[0].key)]


class TestBreaker:
    def failing(self) -> Bench:
        bench = Bench()
        bench.worker("bad")
        for name in "abc":
            bench.enqueue(name)
        for dispatch in list(bench.out.dispatches):
            bench.fail(dispatch)
        return bench

    def state(self, bench: Bench, worker_id: str = "bad") -> WorkerState:
        [worker] = [w for w in bench.scheduler.workers() if w.info.worker_id == worker_id]
        return worker.state(bench.clock.monotonic_us())

    def test_three_faults_in_a_row_open_it(self) -> None:
        bench = self.failing()
        assert self.state(bench) is WorkerState.SUSPECT
        bench.worker("good")
        bench.enqueue("d")
        assert {d.worker.worker_id for d in bench.out.dispatches[3:]} == {"good"}

    def test_after_the_cool_down_one_attempt_probes(self) -> None:
        bench = self.failing()
        bench.scheduler.gateway_lost(GATEWAY)
        bench.advance_reporting(5 * SECOND)
        sent = len(bench.out.dispatches)
        bench.enqueue("p1")
        bench.enqueue("p2")
        assert bench.dispatched_ids()[sent:] == ["p1"]
        bench.first_token(bench.out.dispatches[-1])
        assert bench.dispatched_ids()[sent:] == ["p1", "p2"]
        assert self.state(bench) is WorkerState.READY

    def test_a_failed_probe_opens_it_for_longer(self) -> None:
        bench = self.failing()
        bench.scheduler.gateway_lost(GATEWAY)
        bench.advance_reporting(5 * SECOND)
        bench.enqueue("p1")
        bench.fail(bench.out.dispatches[-1])
        bench.advance_reporting(9 * SECOND)
        assert self.state(bench) is WorkerState.SUSPECT
        bench.advance_reporting(2 * SECOND)
        assert self.state(bench) is WorkerState.READY

    def test_a_fault_told_by_worker_and_gateway_counts_once(self) -> None:
        bench = two_workers()
        bench.enqueue("a")
        bench.enqueue("b")
        for dispatch in list(bench.out.dispatches):
            bench.start(dispatch)
            bench.end(dispatch, failed=True)
            bench.fail(dispatch, Reason.ENGINE_FAILED)
        for worker_id in ("w1", "w2"):
            assert self.state(bench, worker_id) is WorkerState.READY

    @pytest.mark.parametrize(
        "reason", [Reason.GRANT_INVALID, Reason.INVALID_FIELD, Reason.REQUEST_TOO_LARGE]
    )
    def test_what_a_request_did_wrong_itself_never_opens_it(self, reason: Reason) -> None:
        bench = Bench()
        bench.worker("bad")
        for number in range(10):
            bench.enqueue(f"r{number}")
            bench.fail(bench.out.dispatches[-1], reason, worker_fault=False)
        assert self.state(bench) is WorkerState.READY


def test_service_is_corrected_by_what_really_ran() -> None:
    """Pre-charges come back, output is charged, and a cached prompt is not."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("first", "z")
    for name, tenant in [("a", "x"), ("a2", "x"), ("b", "y"), ("b2", "y")]:
        bench.enqueue(name, tenant, prompt_tokens=400)
    for cached in (0, 400, 0):
        usage = AttemptUsage(400, cached, completion_tokens=1)
        bench.report(finished=[AttemptEnd(bench.out.dispatches[-1].key, usage)])
    # x has been charged 2 for a, y 402 for b: it is x's turn.
    assert bench.dispatched_ids() == ["first", "a", "b", "a2"]
    assert bench.seen.service == {"z": 402, "x": 2, "y": 402}


def test_an_attempt_key_is_never_used_twice() -> None:
    bench = two_workers()
    for _ in range(3):
        bench.enqueue("a")
        bench.scheduler.withdraw(GATEWAY, "a")
        bench.scheduler.pump()
    keys = [dispatch.key for dispatch in bench.out.dispatches]
    assert keys[0] == AttemptKey("a", 1)
    assert len(set(keys)) == len(keys)


def test_versions_that_share_a_worker_take_turns() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1", model_version="v1")
    for number in range(3):
        bench.enqueue(f"any{number}")
        bench.enqueue(f"v1-{number}", version="v1")
    for number in range(5):
        bench.end(bench.out.dispatches[number])
    versions = [request_id[:2] for request_id in bench.dispatched_ids()]
    assert versions == ["an", "v1"] * 3
