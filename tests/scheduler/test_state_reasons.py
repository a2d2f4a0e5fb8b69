"""Why a worker is in its state, in words."""

from tests.scheduler.support import SECOND, Bench
from weir_scheduler.workers.state_reason import state_reason
from weir_scheduler.workers.worker import Worker


def the_worker(bench: Bench) -> Worker:
    (worker,) = bench.scheduler.workers()
    return worker


def reason(bench: Bench) -> str:
    return state_reason(the_worker(bench), bench.clock.monotonic_us())


def test_each_state_says_why() -> None:
    bench = Bench()
    bench.worker()
    assert reason(bench) == ""
    bench.scheduler.drain_worker("w1")
    assert reason(bench) == "told to drain"
    assert the_worker(bench).drain_wall_us == bench.clock.now_us()
    bench.scheduler.drain_worker("w1", cancel=True)
    assert (reason(bench), the_worker(bench).drain_wall_us) == ("", 0)
    bench.report(draining=True)
    assert reason(bench) == "drains by itself"
    began_us = the_worker(bench).drain_wall_us
    bench.advance(SECOND)
    bench.report(draining=True)
    assert the_worker(bench).drain_wall_us == began_us
    bench.report(load={"step_age_us": 6 * SECOND})
    assert reason(bench) == "its engine has made no step for 6.0 s"
    bench.report(load={"step_age_us": 31 * SECOND})
    assert reason(bench) == "its engine has made no step for 31.0 s"
    bench.report()
    bench.scheduler.worker_disconnected("w1")
    assert reason(bench) == "its stream has ended"
    bench.advance(6 * SECOND)
    assert reason(bench) == "nothing was heard of it for 5.0 s"


def test_a_breaker_says_when_it_lets_one_try() -> None:
    bench = Bench()
    bench.worker()
    for number in range(3):
        bench.enqueue(f"r{number}")
        bench.fail(bench.out.dispatches[-1])
        bench.end(bench.out.dispatches[-1], failed=True)
    assert reason(bench).startswith("its last attempts failed; one is tried in ")


def test_a_lost_worker_is_forgotten_once_another_has_its_address() -> None:
    bench = Bench()
    bench.worker("w1", address="10.0.0.1:7000")
    bench.scheduler.worker_disconnected("w1")
    bench.advance(6 * SECOND)
    assert reason(bench) == "nothing was heard of it for 5.0 s"
    bench.worker("w2", address="10.0.0.1:7000")
    assert the_worker(bench).info.worker_id == "w2"
    # Of one that had not been lost yet, what it had to do has gone to the newer one.
    bench.enqueue("r1")
    bench.worker("w3", address="10.0.0.1:7000")
    assert the_worker(bench).info.worker_id == "w3"
    assert bench.out.dispatches[-1].key.number == 2
