"""Shares of classes and lengths: everything that waits is served, and why it waits is exact."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.support import Bench, FixedRules
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.fast_lane import MAX_PASSED
from weir_scheduler.queues.group import GROUPS, Group
from weir_scheduler.queues.group_turns import GroupTurns
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.rules.shares import Shares

ONE = WorkerRules(1, 65_536, 512, 1)
BATCH, INTERACTIVE = RequestClass.BATCH, RequestClass.INTERACTIVE


def served(shares: Shares, groups: list[Group], rounds: int) -> Counter[Group]:
    """Service by group when each turn costs the same and everything always waits."""
    turns = GroupTurns(shares)
    for group in groups:
        turns.set_ready(group, ready=True)
    service: Counter[Group] = Counter()
    for _ in range(rounds):
        group = turns.next(turns.ready)
        turns.charge(group, 100)
        service[group] += 1
    return service


@settings(max_examples=25, deadline=None)
@given(
    st.builds(Shares, *[st.integers(1, 50)] * 4),
    st.lists(st.sampled_from(GROUPS), min_size=1, unique=True),
)
def test_every_group_that_waits_gets_its_share(shares: Shares, groups: list[Group]) -> None:
    service = served(shares, groups, rounds := 1_500)
    turns = GroupTurns(shares)
    for group in groups:
        turns.set_ready(group, ready=True)
    for group in groups:
        assert service[group] == pytest.approx(turns.share(group) * rounds, abs=3)


def test_idle_time_earns_a_class_no_credit() -> None:
    turns = GroupTurns(Shares(interactive=1, batch=1))
    interactive, batch = Group(INTERACTIVE, False), Group(BATCH, False)
    turns.set_ready(interactive, ready=True)
    turns.charge(interactive, 1_000_000)
    turns.set_ready(batch, ready=True)
    chosen = []
    for _ in range(10):
        chosen.append(turns.next(turns.ready))
        turns.charge(chosen[-1], 100)
    assert 4 <= chosen.count(batch) <= 6


@pytest.mark.parametrize(
    ("shares", "expected"), [(Shares(), 4), (Shares(interactive=1, batch=1), 20)]
)
def test_the_shares_of_classes_are_the_pools(shares: Shares, expected: int) -> None:
    bench = Bench(FixedRules(workers=ONE, shares=shares))
    bench.worker()
    for number in range(40):
        bench.enqueue(f"i{number}")
        bench.enqueue(f"b{number}", request_class=BATCH)
    for at in range(39):
        bench.end(bench.out.dispatches[at])
    batch = [request_id for request_id in bench.dispatched_ids() if request_id.startswith("b")]
    assert len(batch) == pytest.approx(expected, abs=2)


def test_case_1_gaie_1861_under_steady_interactive_load_no_class_starves() -> None:
    """Whatever the shares: the smallest is a thousandth, and it is served."""
    bench = Bench(FixedRules(workers=ONE, shares=Shares(interactive=50, batch=1)))
    bench.worker()
    bench.enqueue("i0")
    bench.enqueue("offline", request_class=BATCH)
    for at in range(120):
        bench.enqueue(f"i{at + 1}")
        bench.end(bench.out.dispatches[at])
        if "offline" in bench.dispatched_ids():
            break
    assert "offline" in bench.dispatched_ids()


class Crowd:
    """One worker with 100 blocks that small requests keep full."""

    def __init__(self) -> None:
        self.bench = Bench(FixedRules(long_context_threshold=500))
        self.bench.worker(max_context_tokens=10_000)
        self.sent = 0
        self.ended: set[str] = set()
        for _ in range(30):
            self.small()

    def small(self) -> None:
        # 80 + 10 tokens: six blocks of 16.
        self.bench.enqueue(f"s{self.sent}", prompt_tokens=80)
        self.sent += 1

    def finish_oldest(self) -> None:
        """The oldest of those that run ends, and a new one comes."""
        running = self.bench.running["w1"]
        for dispatch in self.bench.out.dispatches:
            if dispatch.key not in running and dispatch.key.request_id not in self.ended:
                self.bench.start(dispatch, kv_blocks=6)
        dispatch = next(d for d in self.bench.out.dispatches if d.key.request_id not in self.ended)
        self.ended.add(dispatch.key.request_id)
        self.bench.end(dispatch)
        self.small()


def test_a_long_head_lets_short_ones_past_but_not_for_ever() -> None:
    crowd = Crowd()
    bench = crowd.bench
    # 960 + 10 tokens: 61 blocks, which are never free while small ones are let past.
    bench.enqueue("long", prompt_tokens=960)
    waiting_from = len(bench.out.dispatches)
    for _ in range(60):
        crowd.finish_oldest()
        if "long" in bench.dispatched_ids():
            break
    order = bench.dispatched_ids()
    passed = order.index("long") - waiting_from
    assert MAX_PASSED - 2 <= passed <= MAX_PASSED + 2


def test_a_long_head_that_is_owed_room_keeps_one_worker_only() -> None:
    crowd = Crowd()
    bench = crowd.bench
    bench.enqueue("long", prompt_tokens=960)
    for _ in range(2 * MAX_PASSED):
        crowd.finish_oldest()
        short = next(r for r in bench.scheduler.queued() if not r.entry.long)
        if bench.scheduler.place(short)[1] is WaitReason.LENGTH_SHARE:
            break
    else:
        pytest.fail("no short one ever waited for the long one")
    before = len(bench.out.dispatches)
    # Too small for the long one: what is kept for it is the other worker.
    bench.worker("w2", total_kv_blocks=50)
    later = bench.out.dispatches[before:]
    assert later
    assert {dispatch.worker.worker_id for dispatch in later} == {"w2"}
    assert "long" not in bench.dispatched_ids()


class TestReasons:
    def reason(self, bench: Bench, request_id: str) -> WaitReason:
        [record] = [r for r in bench.scheduler.queued() if r.entry.request_id == request_id]
        return bench.scheduler.place(record)[1]

    def test_the_class_whose_turn_it_is_not_says_so(self) -> None:
        bench = Bench(FixedRules(workers=ONE))
        bench.worker()
        bench.enqueue("run")
        for name in ("i1", "i2"):
            bench.enqueue(name)
        bench.enqueue("b", request_class=BATCH)
        assert self.reason(bench, "i1") is WaitReason.WORKER_FULL
        assert self.reason(bench, "i2") is WaitReason.BEHIND_OTHERS
        assert self.reason(bench, "b") is WaitReason.CLASS_SHARE

    def test_a_long_one_at_the_cap_says_so_and_those_behind_it_too(self) -> None:
        rules = WorkerRules(8, 65_536, 512, 8, max_running_long=1)
        bench = Bench(FixedRules(workers=rules, long_context_threshold=100))
        bench.worker()
        for number in range(3):
            bench.enqueue(f"l{number}", prompt_tokens=150)
        bench.enqueue("short")
        assert bench.dispatched_ids() == ["l0", "short"]
        assert self.reason(bench, "l2") is WaitReason.LONG_CAP
        counted = Counter(
            reason for _, reason, n in bench.scheduler.queue_depth() for _ in range(n)
        )
        assert counted == {WaitReason.LONG_CAP: 2}

    def test_all_that_gather_wait_for_the_window(self) -> None:
        bench = Bench(FixedRules(batch_wait_us=5_000))
        bench.worker()
        for name in "ab":
            bench.enqueue(name, name)
        assert self.reason(bench, "a") is WaitReason.BATCH_WINDOW
        assert self.reason(bench, "b") is WaitReason.BATCH_WINDOW

    def test_one_that_every_worker_has_failed_says_so(self) -> None:
        bench = Bench()
        bench.worker()
        bench.enqueue("a")
        bench.fail(bench.out.dispatches[0])
        assert self.reason(bench, "a") is WaitReason.WORKERS_TRIED
        assert {reason for _, reason, _ in bench.scheduler.queue_depth()} == {
            WaitReason.WORKERS_TRIED
        }
