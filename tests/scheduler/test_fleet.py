"""Workers that come, go, fall silent, freeze, drain and return."""

import pytest

from tests.scheduler.support import SECOND, Bench, FixedRules, worker_info
from weir_core.errors import Reason, WeirError
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import WorkerState
from weir_scheduler.workers.worker_report import AttemptProgress, AttemptUsage

ONE = WorkerRules(1, 65_536, 512, 1)


def state_of(bench: Bench, worker_id: str = "w1") -> WorkerState | None:
    for worker in bench.scheduler.workers():
        if worker.info.worker_id == worker_id:
            return worker.state(bench.clock.monotonic_us())
    return None


def running_pair() -> Bench:
    """Two workers with one running request each: `a` streamed, `b` not."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.enqueue("a")
    bench.worker("w2")
    bench.enqueue("b")
    for dispatch in list(bench.out.dispatches):
        bench.start(dispatch)
    bench.first_token(bench.out.dispatches[0])
    return bench


def test_a_silent_worker_is_lost_and_its_requests_move_or_fail_by_what_was_streamed() -> None:
    bench = running_pair()
    bench.enqueue("c")
    bench.advance(5 * SECOND)
    assert state_of(bench) is WorkerState.LOST
    assert [(key.request_id, cause.reason) for key, cause in bench.out.lost] == [
        ("a", Reason.WORKER_LOST)
    ]
    assert [request_id for request_id, _, _ in bench.out.requeues] == ["b"]
    assert bench.scheduler.attempts == 0
    bench.worker("w3")
    assert bench.dispatched_ids() == ["a", "b", "b"]
    assert bench.out.dispatches[-1].key == AttemptKey("b", 2)


def test_a_pause_of_the_scheduler_itself_loses_nobody() -> None:
    """Its workers' frames wait to be read; only silence after that counts."""
    bench = running_pair()
    bench.clock.advance_us(60 * SECOND)
    bench.scheduler.pump()
    bench.report("w1")
    bench.advance(3 * SECOND)
    assert state_of(bench, "w1") is WorkerState.READY
    assert state_of(bench, "w2") is WorkerState.LOST


def test_any_frame_keeps_a_worker_alive() -> None:
    bench = running_pair()
    for _ in range(10):
        bench.advance(SECOND)
        bench.scheduler.worker_heard("w1")
    assert state_of(bench) is WorkerState.READY
    assert state_of(bench, "w2") is WorkerState.LOST


def test_a_worker_whose_stream_ended_gets_nothing_but_keeps_its_places_until_lost() -> None:
    bench = running_pair()
    bench.scheduler.worker_disconnected("w1")
    bench.enqueue("c")
    assert state_of(bench) is WorkerState.SUSPECT
    assert bench.scheduler.attempts == 2
    bench.advance(5 * SECOND)
    assert state_of(bench) is WorkerState.LOST
    assert bench.requests_of("w1") == 0


def test_a_worker_that_reconnects_in_time_keeps_its_attempts() -> None:
    bench = running_pair()
    running = list(bench.running["w1"])
    bench.scheduler.worker_disconnected("w1")
    bench.advance(2 * SECOND)
    bench.scheduler.register_worker(worker_info("w1"), running)
    bench.report("w1")
    assert state_of(bench) is WorkerState.READY
    assert bench.requests_of("w1") == 1
    assert bench.out.lost == []
    bench.end(bench.out.dispatches[0])
    assert bench.scheduler.attempts == 1


def test_one_that_returns_after_its_loss_is_told_to_abort_what_was_given_up() -> None:
    bench = running_pair()
    keys = [dispatch.key for dispatch in bench.out.dispatches]
    bench.advance(6 * SECOND)
    bench.scheduler.register_worker(worker_info("w1"), [keys[0]])
    bench.scheduler.register_worker(worker_info("w2"), [keys[1]])
    assert bench.out.aborts == [("w1", keys[0]), ("w2", keys[1])]


def test_orders_that_may_have_been_lost_are_repeated_on_return() -> None:
    bench = running_pair()
    bench.scheduler.drain_worker("w1")
    first = bench.out.dispatches[0]
    bench.scheduler.withdraw("gw", "a")
    bench.scheduler.worker_disconnected("w1")
    bench.out.aborts.clear()
    bench.out.drains.clear()
    bench.scheduler.register_worker(worker_info("w1"), [first.key])
    assert bench.out.aborts == [("w1", first.key)]
    assert bench.out.drains == [("w1", False)]


def test_attempts_of_an_earlier_scheduler_count_as_load_and_are_left_alone() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    foreign = AttemptKey("earlier", 3)
    bench.running["w1"][foreign] = AttemptProgress(foreign, AttemptUsage(100, 0, 7), 7)
    bench.report()
    bench.enqueue("a")
    assert bench.dispatched_ids() == []
    assert bench.out.aborts == []
    bench.running["w1"].clear()
    bench.report()
    assert bench.dispatched_ids() == ["a"]


def test_a_new_process_at_the_same_address_means_that_the_old_one_is_dead() -> None:
    bench = Bench()
    bench.worker("w1", address="host:1")
    bench.enqueue("a")
    bench.worker("w1-again", address="host:1")
    assert [worker.info.worker_id for worker in bench.scheduler.workers()] == ["w1-again"]
    assert bench.out.dispatches[-1].worker.worker_id == "w1-again"


def test_a_frozen_engine_gets_no_work_and_is_lost_in_the_end_although_it_reports() -> None:
    bench = running_pair()
    bench.report("w2", load={"step_age_us": 6 * SECOND})
    assert state_of(bench, "w2") is WorkerState.SUSPECT
    bench.report("w2", load={"step_age_us": 31 * SECOND})
    assert state_of(bench, "w2") is WorkerState.LOST
    assert [request_id for request_id, _, _ in bench.out.requeues] == ["b"]
    bench.report("w2", load={"step_age_us": 0})
    assert state_of(bench, "w2") is WorkerState.READY
    assert ("w2", AttemptKey("b", 1)) in bench.out.aborts


def test_draining_takes_nothing_new_and_cuts_nothing() -> None:
    bench = running_pair()
    bench.end(bench.out.dispatches[1])
    bench.scheduler.drain_worker("w2")
    bench.enqueue("c")
    assert bench.out.drains == [("w2", False)]
    assert bench.dispatched_ids() == ["a", "b"]
    assert bench.out.aborts == []
    bench.scheduler.drain_worker("w2", cancel=True)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["a", "b", "c"]


def test_a_worker_that_says_it_drains_is_believed_and_leaves_without_a_loss() -> None:
    bench = Bench()
    bench.worker()
    bench.report(draining=True)
    bench.enqueue("a")
    assert bench.dispatched_ids() == []
    assert state_of(bench) is WorkerState.DRAINING
    bench.scheduler.worker_disconnected("w1")
    assert state_of(bench) is None


def test_draining_an_unknown_worker_is_an_error() -> None:
    with pytest.raises(WeirError) as caught:
        Bench().scheduler.drain_worker("nobody")
    assert caught.value.reason is Reason.NOT_FOUND


def test_a_lost_worker_is_forgotten_in_the_end() -> None:
    bench = Bench()
    bench.worker()
    bench.advance(6 * SECOND)
    assert state_of(bench) is WorkerState.LOST
    bench.advance(600 * SECOND, step_us=10 * SECOND)
    assert bench.scheduler.workers() == []


def test_no_timer_is_left_when_everything_is_over() -> None:
    bench = running_pair()
    for dispatch in list(bench.out.dispatches):
        bench.end(dispatch)
    bench.scheduler.drain_worker("w1")
    bench.scheduler.drain_worker("w2")
    for worker_id in ("w1", "w2"):
        bench.scheduler.worker_disconnected(worker_id)
    bench.advance(SECOND)
    assert bench.scheduler.next_wake_us() is None
