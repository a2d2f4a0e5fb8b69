"""What is tried again, how much of it, and what opens a breaker."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules
from weir_core.errors import Reason
from weir_core.errors.faults import is_worker_fault
from weir_scheduler.dispatch.retry_budget import BURST, RetryBudget
from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.breaker import FIRST_COOL_DOWN_US, THRESHOLD, Breaker
from weir_scheduler.workers.worker import WorkerState
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage


def shed_everything(placement: PlacementRules, requests: int = 300) -> Bench:
    """Every worker refuses every attempt for want of room, at 100 requests/s."""
    bench = Bench(FixedRules(placement=placement), retry_excluded_us=SECOND)
    for number in range(4):
        bench.worker(f"w{number}")
    seen = 0
    for number in range(requests):
        bench.enqueue(f"r{number}")
        bench.clock.advance_us(SECOND // 100)
        while seen < len(bench.out.dispatches):
            dispatch = bench.out.dispatches[seen]
            seen += 1
            bench.fail(dispatch, Reason.OVERLOADED, worker_fault=False)
            end = AttemptEnd(dispatch.key, AttemptUsage())
            bench.report(dispatch.worker.worker_id, finished=[end])
    return bench


def test_under_full_shed_retries_add_a_tenth_and_no_storm() -> None:
    """Case 24: a deliberate refusal is final, and says when to come back."""
    bench = shed_everything(PlacementRules())
    retries = len(bench.out.dispatches) - 300
    assert 0 < retries <= 0.1 * len(bench.out.dispatches) + 3 * 2 + BURST
    assert len(bench.out.rejections) == 300
    final = [cause for _, cause in bench.out.rejections if "retry_ratio" in cause.message]
    assert len(final) > 250
    assert all(cause.retry_after_s for cause in final)
    states = {w.state(bench.clock.monotonic_us()) for w in bench.scheduler.workers()}
    assert states == {WorkerState.READY}


@pytest.mark.parametrize("retries_per_s", [0, 1_000])
def test_a_grant_that_comes_too_late_is_no_refusal_of_its_client(retries_per_s: int) -> None:
    placement = PlacementRules(retries_per_s=retries_per_s, retry_ratio_millis=0)
    bench = Bench(FixedRules(placement=placement))
    bench.worker()
    bench.enqueue("a")
    bench.clock.advance_us(SECOND)
    for dispatch in bench.out.dispatches:
        bench.fail(dispatch, Reason.GRANT_INVALID, worker_fault=False)
        bench.report(finished=[AttemptEnd(dispatch.key, AttemptUsage())])
    [(_, cause)] = bench.out.rejections
    assert cause.reason is Reason.WORKER_LOST
    assert "GRANT_INVALID" in cause.message


def test_without_the_budget_each_would_be_dispatched_three_times() -> None:
    """Negative control."""
    bench = shed_everything(
        PlacementRules(retries_per_s=1_000, retry_ratio_millis=1_000), requests=100
    )
    assert len(bench.out.dispatches) > 2.5 * 100


def test_what_crosses_with_a_drain_moves_whatever_the_budget() -> None:
    """A worker that begins to leave refuses all that is on its way: that is no overload."""
    bench = Bench(FixedRules(placement=PlacementRules(retry_ratio_millis=0, retries_per_s=0)))
    bench.worker("w1")
    for number in range(40):
        bench.enqueue(f"r{number}")
    bench.worker("w2")
    for dispatch in list(bench.out.dispatches):
        bench.fail(dispatch, Reason.DRAINING, worker_fault=False)
    bench.report("w1", draining=True)
    assert bench.out.rejections == []
    assert {d.worker.worker_id for d in bench.out.dispatches[40:]} == {"w2"}
    assert len(bench.out.dispatches) == 80


def test_a_lost_worker_moves_all_its_requests_whatever_the_budget() -> None:
    bench = Bench(FixedRules(placement=PlacementRules(retry_ratio_millis=0, retries_per_s=0)))
    bench.worker("w1")
    for number in range(40):
        bench.enqueue(f"r{number}")
    bench.worker("w2")
    bench.scheduler.worker_disconnected("w1")
    for _ in range(7):
        bench.advance(SECOND)
        bench.report("w2")
    assert bench.out.rejections == []
    assert bench.requests_of("w2") == 40


@given(
    st.integers(0, 1_000),
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 300_000), st.booleans()), max_size=200),
)
@settings(max_examples=60, deadline=None)
def test_the_budget_holds_over_any_span(
    ratio: int, per_second: int, events: list[tuple[int, bool]]
) -> None:
    budget, now_us, taken = RetryBudget(0), 0, []
    for gap_us, dispatch in events:
        now_us += gap_us
        if dispatch:
            budget.dispatched(ratio)
        taken.append((now_us, dispatch, not dispatch and budget.take(now_us, per_second)))
    for begin in range(0, len(taken), 11):
        part = taken[begin:]
        span_s = (part[-1][0] - part[0][0]) / SECOND
        dispatches = sum(dispatch for _, dispatch, _ in part)
        allowed = ratio * dispatches / 1_000 + per_second * span_s + BURST
        assert sum(retry for _, _, retry in part) <= allowed + 1e-6


@pytest.mark.parametrize("reason", list(Reason))
def test_only_transport_and_engine_are_the_workers_fault(reason: Reason) -> None:
    faults = {Reason.WORKER_LOST, Reason.ENGINE_FAILED, Reason.INTERNAL}
    assert is_worker_fault(reason) is (reason in faults)


class TestHalfOpen:
    def opened(self) -> Breaker:
        breaker = Breaker()
        for _ in range(THRESHOLD):
            breaker.fault(0)
        assert not breaker.allows(FIRST_COOL_DOWN_US - 1)
        return breaker

    def test_one_probe_at_a_time(self) -> None:
        breaker = self.opened()
        assert breaker.allows(FIRST_COOL_DOWN_US)
        breaker.dispatched(AttemptKey("p", 1))
        assert not breaker.allows(FIRST_COOL_DOWN_US)

    def test_the_end_of_another_attempt_frees_no_probe(self) -> None:
        breaker = self.opened()
        breaker.dispatched(AttemptKey("p", 1))
        breaker.over(AttemptKey("old", 1))
        assert not breaker.allows(FIRST_COOL_DOWN_US)
        breaker.over(AttemptKey("p", 1))
        assert breaker.allows(FIRST_COOL_DOWN_US)

    @pytest.mark.parametrize("how", ["finish", "withdraw", "refused", "lost"])
    def test_a_probe_that_shows_nothing_lets_the_next_one_go(self, how: str) -> None:
        """Else the worker would get no work any more, for ever."""
        bench = Bench()
        bench.worker("bad")
        for name in "abc":
            bench.enqueue(name)
        for dispatch in list(bench.out.dispatches):
            bench.fail(dispatch)
        bench.scheduler.gateway_lost(GATEWAY)
        bench.advance_reporting(5 * SECOND)
        bench.enqueue("probe")
        probe = bench.out.dispatches[-1]
        assert probe.key.request_id == "probe"
        if how == "finish":
            bench.scheduler.finish(GATEWAY, probe.key, AttemptUsage())
        elif how == "withdraw":
            bench.scheduler.withdraw(GATEWAY, "probe")
        elif how == "refused":
            bench.fail(probe, Reason.INVALID_FIELD, worker_fault=False)
            bench.scheduler.withdraw(GATEWAY, "probe")
        if how != "lost":
            bench.report("bad", finished=[AttemptEnd(probe.key, AttemptUsage())])
        else:
            bench.advance_reporting(4 * SECOND)
        bench.enqueue("next")
        bench.advance_reporting(SECOND)
        assert bench.dispatched_ids()[-1] in ("next", "probe")
        assert len(bench.out.dispatches) >= 5
