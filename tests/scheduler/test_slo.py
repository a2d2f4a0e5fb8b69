"""Targets of tenants: what counts, and over which time."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import TenantRules, WorkerRules
from weir_scheduler.rules.slo_targets import SloTargets
from weir_scheduler.slo.objective import Objective, SloStatus
from weir_scheduler.slo.sliding_counts import SlidingCounts

MINUTE = 60 * SECOND
TARGETS = SloTargets(ttft_us=2 * SECOND, itl_us=100_000, e2e_us=10 * SECOND)
ONE = WorkerRules(1, 65_536, 512, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40 * SECOND), st.booleans()), max_size=60),
    st.integers(0, 400 * SECOND),
)
def test_the_window_holds_what_happened_in_it(events: list[tuple[int, bool]], later: int) -> None:
    counts, now_us = SlidingCounts(5 * MINUTE), 0
    seen: list[tuple[int, bool]] = []
    for gap_us, good in events:
        now_us += gap_us
        counts.add(now_us, good=good)
        seen.append((now_us, good))
    now_us += later
    kept, total = counts.read(now_us)
    # Exact to one slot of five seconds.
    surely = [ok for at_us, ok in seen if at_us > now_us - 5 * MINUTE + 5 * SECOND]
    maybe = [ok for at_us, ok in seen if at_us > now_us - 5 * MINUTE - 5 * SECOND]
    assert len(surely) <= total <= len(maybe)
    assert sum(surely) <= kept <= sum(maybe)


class Served:
    """One slow worker and a tenant with targets."""

    def __init__(self, targets: SloTargets = TARGETS, **fields: object) -> None:
        tenants = {"t": TenantRules(1, 0, 0, targets)}
        self.bench = Bench(FixedRules(workers=ONE, tenants=tenants, **fields))  # type: ignore[arg-type]
        self.bench.worker()

    def answer(self, name: str, ttft_us: int, gap_us: int, tokens: int = 11) -> None:
        """An answer whose first token and whose later ones take that long."""
        bench = self.bench
        bench.enqueue(name)
        dispatch = bench.out.dispatches[-1]
        bench.start(dispatch)
        bench.clock.advance_us(ttft_us)
        bench.first_token(dispatch)
        bench.clock.advance_us(gap_us * (tokens - 1))
        bench.end(dispatch, tokens)

    def status(self) -> dict[Objective, SloStatus]:
        return {status.objective: status for status in self.bench.scheduler.slos()}

    def recent(self) -> dict[Objective, tuple[int, int]]:
        """Good and all of the last five minutes, by objective."""
        return {
            objective: (status.windows[0].good, status.windows[0].total)
            for objective, status in self.status().items()
        }


def test_each_target_is_counted_by_itself() -> None:
    served = Served()
    served.answer("good", SECOND, 50_000)
    served.answer("slow start", 3 * SECOND, 50_000)
    served.answer("slow tokens", SECOND, 200_000)
    assert served.recent() == {
        Objective.TTFT: (2, 3),
        Objective.ITL: (2, 3),
        Objective.E2E: (3, 3),
    }


def test_an_answer_that_is_not_streamed_is_measured_to_its_end_alone() -> None:
    served = Served()
    bench = served.bench
    for name, took_us, tokens in (("good", SECOND, 5), ("late", 11 * SECOND, 5), ("none", 1, 0)):
        bench.enqueue(name)
        dispatch = bench.out.dispatches[-1]
        bench.start(dispatch)
        bench.clock.advance_us(took_us)
        bench.end(dispatch, tokens)
    assert served.recent() == {Objective.E2E: (1, 2)}


def test_every_request_that_counts_is_told_of() -> None:
    served = Served()
    told: list[tuple[str, Objective, bool]] = []
    served.bench.scheduler.on_judged(lambda *judged: told.append(judged))
    served.answer("slow start", 3 * SECOND, 50_000)
    assert told == [
        ("t", Objective.TTFT, False),
        ("t", Objective.ITL, True),
        ("t", Objective.E2E, True),
    ]


def test_the_burn_rate_is_the_part_missed_over_the_part_that_may_be() -> None:
    served = Served()
    for number in range(8):
        served.answer(f"good{number}", SECOND, 10_000)
    for number in range(2):
        served.answer(f"late{number}", 3 * SECOND, 10_000)
    short, long = served.status()[Objective.TTFT].windows
    assert (short.length_us, long.length_us) == (5 * MINUTE, 60 * MINUTE)
    assert short.attainment == pytest.approx(0.8)
    # 20 % missed where 5 % may.
    assert short.burn_rate == pytest.approx(4.0)


def test_the_short_window_forgets_what_the_long_one_keeps() -> None:
    served = Served()
    served.answer("late", 3 * SECOND, 10_000)
    served.bench.advance_reporting(6 * MINUTE, step_us=2 * SECOND)
    served.answer("good", SECOND, 10_000)
    short, long = served.status()[Objective.TTFT].windows
    assert (short.good, short.total) == (1, 1)
    assert (long.good, long.total) == (1, 2)


def test_time_in_the_queue_counts_from_the_first_arrival() -> None:
    served = Served()
    bench = served.bench
    bench.enqueue("run", "other")
    bench.enqueue("waits")
    bench.clock.advance_us(3 * SECOND)
    bench.end(bench.out.dispatches[0])
    bench.first_token(bench.out.dispatches[1])
    assert served.recent() == {Objective.TTFT: (0, 1)}


def test_what_is_refused_for_want_of_room_has_missed() -> None:
    served = Served(queue_timeout_us=5 * SECOND)
    bench = served.bench
    bench.enqueue("run", "other")
    bench.start(bench.out.dispatches[0])
    bench.enqueue("in vain")
    bench.advance_reporting(6 * SECOND)
    assert served.recent() == {Objective.TTFT: (0, 1), Objective.E2E: (0, 1)}


def test_a_limit_of_its_own_and_a_client_that_left_are_no_miss() -> None:
    served = Served()
    bench = served.bench
    bench.rules.tenants["t"] = replace(bench.rules.tenants["t"], max_queued_requests=1)
    bench.enqueue("run", "other")
    bench.enqueue("waits")
    bench.enqueue("one too many")
    bench.scheduler.withdraw("gw", "waits")
    assert len(bench.out.rejections) == 1
    assert served.recent() == {}


def test_lost_after_its_first_token_it_misses_the_end_alone() -> None:
    served = Served()
    bench = served.bench
    bench.enqueue("a")
    dispatch = bench.out.dispatches[0]
    bench.start(dispatch, 1)
    bench.first_token(dispatch)
    bench.running.pop("w1")
    bench.scheduler.worker_disconnected("w1")
    bench.advance(10 * SECOND)
    assert served.recent() == {Objective.TTFT: (1, 1), Objective.E2E: (0, 1)}


def test_offline_work_and_tenants_without_targets_count_nowhere() -> None:
    served = Served()
    bench = served.bench
    bench.enqueue("offline", request_class=RequestClass.BATCH)
    bench.first_token(bench.out.dispatches[0])
    bench.end(bench.out.dispatches[0])
    bench.enqueue("other", "other")
    bench.first_token(bench.out.dispatches[1])
    bench.end(bench.out.dispatches[1])
    assert served.recent() == {}


def test_a_target_that_is_taken_away_is_shown_no_more() -> None:
    served = Served()
    served.answer("a", SECOND, 10_000)
    served.bench.rules.tenants.clear()
    assert served.status() == {}
