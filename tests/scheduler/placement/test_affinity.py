"""A hot prefix never makes a hot worker; sessions go home, wait a little, and move on."""

import random

import pytest

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.recent_work import HALF_LIFE_US, RecentWork
from weir_scheduler.workers.worker import WorkerState
from weir_scheduler.workers.worker_report import AttemptUsage, WorkerLoad, WorkerReport

CHAIN = tuple(number.to_bytes(32, "big") for number in range(1, 9))
ONE = WorkerRules(1, 65_536, 512, 1)
UNBOUNDED = PlacementRules(affinity_excess_millis=1_000_000_000)


def holds(bench: Bench, worker_id: str) -> None:
    """A worker has the whole prefix in its cache."""
    report = WorkerReport(WorkerLoad(free_kv_blocks=100), prefix_blocks_added=CHAIN)
    bench.scheduler.worker_report(worker_id, report)
    bench.scheduler.pump()


def quiet_hour(rules: PlacementRules, workers: int = 4, requests: int = 600) -> float:
    """All prompts share a prefix; they come one at a time. Busiest worker over the mean."""
    bench = Bench(FixedRules(placement=rules))
    rng = random.Random(3)
    for number in range(workers):
        bench.worker(f"w{number}")
    holds(bench, "w0")
    work = dict.fromkeys(bench.running, 0)
    holders = {"w0"}
    for number in range(requests):
        length = 512 + rng.randint(16, 400)
        name = f"r{number}"
        bench.enqueue(name, prompt_tokens=length, max_new_tokens=64, prefix_hashes=CHAIN)
        dispatch = bench.out.dispatches[-1]
        worker_id = dispatch.worker.worker_id
        work[worker_id] += length - (512 if worker_id in holders else 0) + 32
        holders.add(worker_id)
        bench.end(dispatch, output=32)
        holds(bench, worker_id)
        bench.clock.advance_us(SECOND // 4)
        bench.scheduler.pump()
        if number % 8 == 0:
            for one in bench.running:
                bench.report(one)
    return max(work.values()) / (sum(work.values()) / workers)


def test_a_prefix_that_all_share_loads_no_worker_beyond_1_3_times_the_mean() -> None:
    assert quiet_hour(PlacementRules()) <= 1.3


def test_without_the_bound_one_worker_would_have_it_all() -> None:
    """Negative control: while nothing waits, the first holder always saves most."""
    assert quiet_hour(UNBOUNDED, requests=200) > 2


def test_a_hot_burst_spreads_by_backlog() -> None:
    bench = Bench()
    for number in range(8):
        bench.worker(f"w{number}")
    holds(bench, "w0")
    for number in range(64):
        bench.enqueue(f"r{number}", prompt_tokens=700, max_new_tokens=100, prefix_hashes=CHAIN)
    counts = {worker_id: bench.requests_of(worker_id) for worker_id in bench.running}
    assert max(counts.values()) <= 1.5 * 64 / 8


def test_work_counts_half_after_a_half_life_and_sums_begin_anew_before_they_overflow() -> None:
    work = RecentWork()
    assert work.weight(HALF_LIFE_US) == 1.0
    assert work.weight(2 * HALF_LIFE_US) == 2.0
    assert work.weight(2_000 * HALF_LIFE_US) == 1.0
    assert work.generation == 1


def test_recent_work_survives_years() -> None:
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    for number in range(6):
        bench.clock.advance_us(400 * HALF_LIFE_US)
        bench.scheduler.pump()
        for worker_id in ("w1", "w2"):
            bench.worker(worker_id)
        bench.enqueue(f"r{number}")
        bench.end(bench.out.dispatches[-1])
    assert len(bench.out.dispatches) == 6


class TestSession:
    """Two workers with one place each; `home` serves the session and is full."""

    def bench(self, wait_us: int = 100_000, prompt: int = 400) -> Bench:
        rules = FixedRules(workers=ONE, placement=PlacementRules(session_wait_us=wait_us))
        bench = Bench(rules)
        bench.worker("home")
        bench.enqueue("turn1", session_id="s", prompt_tokens=prompt)
        bench.worker("other")
        bench.end(bench.out.dispatches[-1])
        bench.enqueue("busy", session_id="s", prompt_tokens=10, max_new_tokens=10)
        assert bench.out.dispatches[-1].worker.worker_id == "home"
        bench.enqueue("turn2", session_id="s", prompt_tokens=prompt)
        return bench

    def placed(self, bench: Bench) -> list[tuple[str, str]]:
        return [(d.key.request_id, d.worker.worker_id) for d in bench.out.dispatches[2:]]

    def test_it_waits_for_its_worker_and_gets_the_first_place(self) -> None:
        bench = self.bench()
        assert self.placed(bench) == []
        bench.end(bench.out.dispatches[-1])
        assert self.placed(bench) == [("turn2", "home")]

    def test_after_that_time_it_goes_elsewhere(self) -> None:
        bench = self.bench()
        bench.advance(110_000, step_us=10_000)
        assert self.placed(bench) == [("turn2", "other")]

    def test_meanwhile_it_holds_up_nobody_and_says_why_it_waits(self) -> None:
        bench = self.bench()
        bench.enqueue("next")
        assert self.placed(bench) == [("next", "other")]
        [record] = bench.scheduler.queued()
        assert bench.scheduler.place(record)[1] is WaitReason.SESSION_WAIT
        assert {reason: n for _, reason, n in bench.scheduler.queue_depth()} == {
            WaitReason.SESSION_WAIT: 1
        }

    def test_a_short_turn_does_not_wait_where_waiting_saves_nothing(self) -> None:
        assert self.placed(self.bench(prompt=10)) == [("turn2", "other")]

    @pytest.mark.parametrize("wait_us", [0, 100_000])
    @pytest.mark.parametrize("gone", ["lost", "draining", "failing"])
    def test_a_home_that_takes_no_work_is_left_at_once(self, gone: str, wait_us: int) -> None:
        """Cases 14 and 25: placed on the full set, whatever the affinity says."""
        bench = self.bench(wait_us)
        if gone == "lost":
            bench.scheduler.worker_disconnected("home")
        elif gone == "draining":
            bench.scheduler.drain_worker("home")
        else:
            [home] = [w for w in bench.scheduler.workers() if w.info.worker_id == "home"]
            for _ in range(3):
                home.breaker.fault(bench.clock.monotonic_us())
            bench.scheduler._state.watch_breaker(home)
            assert home.state(bench.clock.monotonic_us()) is WorkerState.SUSPECT
        bench.scheduler.pump()
        assert self.placed(bench) == [("turn2", "other")]

    def test_a_home_that_failed_the_request_is_not_waited_for(self) -> None:
        bench = self.bench()
        bench.end(bench.out.dispatches[-1])
        bench.fail(bench.out.dispatches[-1])
        assert self.placed(bench) == [("turn2", "home"), ("turn2", "other")]

    def test_the_time_without_any_worker_is_over_once_there_is_one(self) -> None:
        """It began to wait while none took work; now it waits for one that is there, and full."""
        bench = self.bench(20 * SECOND)
        bench.start(bench.out.dispatches[-1], output=1)
        bench.scheduler.withdraw("gw", "turn2")
        for cancel in (False, True):
            for worker_id in ("home", "other"):
                bench.scheduler.drain_worker(worker_id, cancel=cancel)
            bench.scheduler.pump()
            if not cancel:
                bench.enqueue("turn3", session_id="s", prompt_tokens=400)
        bench.advance_reporting(15 * SECOND)
        [record] = bench.scheduler.queued()
        assert bench.scheduler.place(record)[1] is WaitReason.SESSION_WAIT
        bench.advance_reporting(6 * SECOND)
        assert self.placed(bench) == [("turn3", "other")]

    def test_a_withdrawn_turn_leaves_nothing_behind(self) -> None:
        bench = self.bench()
        bench.scheduler.withdraw("gw", "turn2")
        bench.advance(200_000)
        assert (bench.scheduler.waiting, self.placed(bench)) == (0, [])


def test_a_late_report_does_not_bring_an_ended_attempt_back() -> None:
    """The gateway had its terminal record before the worker's report was read."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("a")
    first = bench.out.dispatches[0]
    bench.start(first)
    bench.scheduler.finish("gw", first.key, AttemptUsage(10, 0, 3))
    bench.scheduler.pump()
    [worker] = bench.scheduler.workers()
    bench.report()
    assert bench.requests_of() == 0
    bench.running["w1"].clear()
    bench.report()
    assert worker._ended == set()
