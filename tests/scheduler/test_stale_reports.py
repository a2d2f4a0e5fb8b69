"""Reports that were made before the scheduler's last word to the worker arrived."""

from tests.scheduler.support import GATEWAY, Bench


def test_a_report_made_before_the_arrival_does_not_end_an_attempt_that_streams() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("r1")
    (dispatch,) = bench.out.dispatches
    bench.first_token(dispatch)
    bench.report()
    assert bench.requests_of() == 1
    assert bench.scheduler.attempts == 1
    bench.start(dispatch, output=3)
    bench.end(dispatch, output=5)
    assert bench.scheduler.attempts == 0
    assert bench.seen.service["t"] == 10 + 2 * 5


def test_an_attempt_that_was_named_and_is_no_more_has_gone_without_a_word() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("r1")
    (dispatch,) = bench.out.dispatches
    bench.start(dispatch, output=3)
    bench.running["w1"].clear()
    bench.report()
    assert bench.scheduler.attempts == 0
    assert bench.seen.service["t"] == 10 + 2 * 3


def test_one_that_streamed_and_no_report_ever_names_is_gone_with_its_grant() -> None:
    bench = Bench()
    bench.worker()
    bench.enqueue("r1")
    (dispatch,) = bench.out.dispatches
    bench.first_token(dispatch)
    bench.advance_reporting(1_000_000)
    assert bench.scheduler.attempts == 1
    bench.advance_reporting(2_000_000)
    assert bench.scheduler.attempts == 0
    bench.scheduler.finish(GATEWAY, dispatch.key, None)
    assert bench.scheduler.requests == 0
