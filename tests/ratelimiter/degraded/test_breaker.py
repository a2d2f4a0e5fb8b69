"""The breaker alone, with time in hand."""

from weir_ratelimiter.store.degraded.breaker import Breaker, BreakerOptions, BreakerState


def breaker() -> Breaker:
    return Breaker(BreakerOptions(failures=3, first_ms=100, most_ms=400))


def opened() -> Breaker:
    tripped = breaker()
    tripped.failed(0, at_once=True)
    return tripped


def test_it_opens_after_consecutive_failures_only() -> None:
    tripped = breaker()
    for _ in range(10):
        tripped.failed(0)
        tripped.failed(0)
        tripped.succeeded()
    assert tripped.closed
    tripped.failed(0)
    tripped.failed(0)
    assert tripped.closed
    tripped.failed(0)
    assert tripped.state is BreakerState.OPEN


def test_a_refused_connection_opens_it_at_once() -> None:
    assert not opened().closed


def test_one_probe_at_a_time_and_not_too_soon() -> None:
    tripped = opened()
    assert not tripped.begin_probe(99)
    assert tripped.begin_probe(100)
    assert tripped.state is BreakerState.PROBING
    assert not tripped.begin_probe(10_000)


def test_probes_that_fail_come_at_growing_intervals_up_to_a_bound() -> None:
    tripped, now_ms, waits = opened(), 0, []
    for _ in range(5):
        began_ms = now_ms
        while not tripped.begin_probe(now_ms):
            now_ms += 1
        waits.append(now_ms - began_ms)
        tripped.end_probe(now_ms, answered=False)
    assert waits == [100, 200, 400, 400, 400]


def test_a_probe_that_is_answered_closes_it_and_forgets_the_past() -> None:
    tripped = opened()
    assert tripped.begin_probe(100)
    tripped.end_probe(100, answered=True)
    assert tripped.closed
    tripped.failed(100)
    tripped.failed(100)
    assert tripped.closed
    tripped.failed(100)
    assert not tripped.begin_probe(199)
    assert tripped.begin_probe(200)


def test_late_answers_and_failures_change_nothing_once_it_is_open() -> None:
    tripped = opened()
    tripped.succeeded()
    tripped.failed(90, at_once=True)
    assert not tripped.closed
    assert tripped.begin_probe(100)
