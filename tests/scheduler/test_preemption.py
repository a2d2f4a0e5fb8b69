"""Pre-emption by policy: who loses a place to whom, how often, and who gets it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, entry
from weir_core.errors import Reason
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.dispatch.preemption import (
    BURST,
    Occupant,
    OvertakeCredit,
    choose_victim,
    more_urgent,
)
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import Isolation, TenantRules, WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage

ONE = WorkerRules(1, 65_536, 512, 1)
FREELY = PreemptionRules(max_overtake_ratio_millis=1_000)
BATCH, INTERACTIVE = RequestClass.BATCH, RequestClass.INTERACTIVE


def occupant(request_id: str, order: int = 0, **fields: Any) -> Occupant:
    defaults: dict[str, Any] = {
        "worker_id": "w1",
        "tenant_id": "t",
        "request_class": INTERACTIVE,
        "priority": 0,
        "preemptions": 0,
        "overtaken": 0,
    }
    return Occupant(key=AttemptKey(request_id, 1), order=order, **(defaults | fields))


def victim_of(waiting: Any, *occupants: Occupant, rules: PreemptionRules = FREELY) -> str | None:
    chosen = choose_victim(waiting, occupants, rules, across_tenants=True, frees=lambda _: True)
    return None if chosen is None else chosen.key.request_id


class TestChoice:
    def test_lowest_class_then_lowest_priority_then_newest(self) -> None:
        urgent = entry("u", priority=50)
        batch = [occupant(f"b{n}", n, request_class=BATCH, priority=n % 2) for n in range(4)]
        low = [occupant(f"l{n}", n, priority=1) for n in range(3)]
        assert victim_of(urgent, *batch, *low) == "b2"
        assert victim_of(urgent, *low, occupant("l0", 9, priority=2)) == "l2"

    def test_peers_are_never_touched_however_old(self) -> None:
        assert victim_of(entry("u", priority=5), occupant("p", priority=5)) is None
        assert victim_of(entry("u", request_class=BATCH, priority=9), occupant("p")) is None

    def test_between_tenants_that_take_turns_only_the_class_compares(self) -> None:
        urgent, other = entry("u", priority=9), occupant("o", tenant_id="x")
        assert not more_urgent(urgent, other, across_tenants=False)
        assert more_urgent(urgent, other, across_tenants=True)
        offline = occupant("b", tenant_id="x", request_class=BATCH)
        assert more_urgent(urgent, offline, across_tenants=False)

    def test_caps_of_one_request(self) -> None:
        rules = PreemptionRules(max_overtakings=3, max_preemptions=2)
        urgent = entry("u", priority=9)
        assert victim_of(urgent, occupant("a", preemptions=2), rules=rules) is None
        assert victim_of(urgent, occupant("a", overtaken=3), rules=rules) is None
        assert victim_of(urgent, occupant("a", preemptions=1, overtaken=2), rules=rules) == "a"

    def test_only_a_place_that_helps_is_taken(self) -> None:
        urgent = entry("u", priority=9)
        small, big = occupant("small", 1), occupant("big", 0)
        chosen = choose_victim(
            urgent, [small, big], FREELY, across_tenants=True, frees=lambda o: o is big
        )
        assert chosen is big

    @given(st.integers(1, 1_000), st.lists(st.booleans(), max_size=300))
    def test_the_share_holds_from_any_moment_on(self, ratio: int, wishes: list[bool]) -> None:
        credit = OvertakeCredit()
        taken = []
        for wish in wishes:
            spent = wish and credit.available
            if spent:
                credit.spend()
            taken.append(spent)
            credit.dispatched(ratio)
        assert sum(taken) * 1_000 <= ratio * len(taken) + 1_000
        for start in range(0, len(taken), 7):
            part = taken[start:]
            assert sum(part) * 1_000 <= ratio * len(part) + BURST * 1_000


def bench_of(
    rules: PreemptionRules | None = FREELY, isolation: Isolation = Isolation.SHARED
) -> Bench:
    bench = Bench(FixedRules(isolation=isolation, policy="priority", workers=ONE, preemption=rules))
    bench.worker()
    return bench


def gone(bench: Bench, dispatch: Dispatch, computed: int = 0) -> None:
    """The worker says that an aborted attempt is gone."""
    bench.running[dispatch.worker.worker_id].pop(dispatch.key, None)
    usage = AttemptUsage(prompt_tokens=computed)
    bench.report(dispatch.worker.worker_id, finished=[AttemptEnd(dispatch.key, usage)])


def give(bench: Bench, dispatch: Dispatch) -> None:
    """The gateway gives a place back."""
    bench.fail(dispatch, Reason.PREEMPTED, worker_fault=False)


def test_it_is_off_by_default() -> None:
    bench = bench_of(None)
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    assert bench.out.preempts == []


def test_the_urgent_gets_the_place_and_the_victim_its_old_one_in_the_queue() -> None:
    bench = bench_of()
    bench.enqueue("low")
    bench.enqueue("later", priority=0)
    bench.enqueue("high", priority=50)
    low = bench.out.dispatches[0]
    assert bench.out.preempts == [low.key]
    give(bench, low)
    [(request_id, cause, position)] = bench.out.requeues
    assert (request_id, cause.reason, position) == ("low", Reason.PREEMPTED, 2)
    assert bench.out.aborts == [("w1", low.key)]
    assert bench.dispatched_ids() == ["low"]
    gone(bench, low)
    assert bench.dispatched_ids() == ["low", "high"]
    bench.end(bench.out.dispatches[1])
    assert bench.dispatched_ids() == ["low", "high", "low"]
    assert [d.key.number for d in bench.out.dispatches] == [1, 1, 2]


def test_what_was_computed_in_vain_is_charged_to_nobody() -> None:
    bench = bench_of()
    bench.enqueue("low", "a", prompt_tokens=400)
    bench.enqueue("high", "b", priority=50)
    low = bench.out.dispatches[0]
    give(bench, low)
    gone(bench, low, computed=300)
    assert bench.seen.service["a"] == 0


def test_after_the_first_token_nothing_is_asked() -> None:
    bench = bench_of()
    bench.enqueue("low")
    bench.start(bench.out.dispatches[0], output=1)
    bench.enqueue("high", priority=50)
    assert bench.out.preempts == []
    other = bench_of()
    other.enqueue("low")
    other.first_token(other.out.dispatches[0])
    other.enqueue("high", priority=50)
    assert other.out.preempts == []


def test_a_first_token_that_crosses_the_question_keeps_the_place() -> None:
    """The answer goes on uncut, and the same attempt is not asked again."""
    bench = bench_of()
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    low = bench.out.dispatches[0]
    bench.first_token(low)
    assert (bench.out.aborts, bench.out.lost, bench.out.requeues) == ([], [], [])
    bench.advance_reporting(2 * SECOND)
    assert bench.out.preempts == [low.key]
    bench.end(low)
    assert bench.dispatched_ids() == ["low", "high"]


def test_a_gateway_that_does_not_answer_holds_nothing_up() -> None:
    bench = bench_of(PreemptionRules(max_overtake_ratio_millis=1_000, place_wait_us=SECOND))
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    bench.start(bench.out.dispatches[0])
    bench.enqueue("higher", priority=90)
    bench.advance_reporting(SECOND + 100_000)
    assert len(bench.out.preempts) == 1
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["low", "higher"]


def test_the_freed_place_is_for_who_took_it() -> None:
    """One that is more urgent still comes while the place is awaited."""
    bench = bench_of()
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    low = bench.out.dispatches[0]
    give(bench, low)
    bench.enqueue("highest", priority=99)
    gone(bench, low)
    assert bench.dispatched_ids() == ["low", "high"]


def test_a_claim_ends_with_its_claimant() -> None:
    bench = bench_of()
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    low = bench.out.dispatches[0]
    give(bench, low)
    bench.scheduler.withdraw(GATEWAY, "high")
    gone(bench, low)
    assert bench.dispatched_ids() == ["low", "low"]


def test_one_request_is_pre_empted_so_often_and_no_more() -> None:
    bench = bench_of(
        PreemptionRules(max_preemptions=2, max_overtakings=9, max_overtake_ratio_millis=1_000)
    )
    bench.enqueue("low")
    for number in range(4):
        bench.enqueue(f"high{number}", priority=50)
        victim = bench.out.dispatches[-1]
        if len(bench.out.preempts) == number + 1:
            give(bench, victim)
            gone(bench, victim)
        bench.end(bench.out.dispatches[-1])
    assert len(bench.out.preempts) == 2
    assert bench.dispatched_ids()[:5] == ["low", "high0", "low", "high1", "low"]


def test_pre_emptions_use_up_no_attempts() -> None:
    bench = Bench(
        FixedRules(
            isolation=Isolation.SHARED,
            policy="priority",
            workers=ONE,
            preemption=PreemptionRules(9, 9, 1_000),
        ),
        max_attempts=2,
    )
    bench.worker()
    bench.enqueue("low")
    for number in range(3):
        bench.enqueue(f"high{number}", priority=50)
        victim = bench.out.dispatches[-1]
        give(bench, victim)
        gone(bench, victim)
        bench.end(bench.out.dispatches[-1])
    assert bench.out.rejections == []
    assert bench.out.dispatches[-1].key == AttemptKey("low", 4)


def test_interactive_work_takes_a_place_of_batch_work_whosever_turn_it_is() -> None:
    bench = bench_of(isolation=Isolation.WEIGHTED)
    bench.enqueue("offline", "a", request_class=BATCH)
    bench.enqueue("waiting", "a", request_class=BATCH)
    bench.enqueue("now", "b")
    offline = bench.out.dispatches[0]
    assert bench.out.preempts == [offline.key]
    give(bench, offline)
    gone(bench, offline)
    assert bench.dispatched_ids() == ["offline", "now"]
    assert bench.scheduler.preemptions.overtakings == 1


def test_why_it_waits_is_told_at_every_stage() -> None:
    bench = bench_of()
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    [high] = bench.scheduler.queued()
    assert bench.scheduler.place(high)[1] is WaitReason.PREEMPTING
    low = bench.out.dispatches[0]
    give(bench, low)
    gone(bench, low)
    [record] = bench.scheduler.queued()
    assert record.entry.request_id == "low"
    bench.advance(200_000)
    told = {(request_id, reason) for request_id, _, reason in bench.out.positions}
    assert ("low", WaitReason.WORKER_FULL) in told or ("low", WaitReason.PREEMPTED) in told
    counts = bench.scheduler.preemptions
    assert (counts.asked, counts.given, counts.overtakings) == (1, 1, 1)


def test_a_claimant_does_not_gather_a_batch_on_the_place_that_it_took() -> None:
    """The victim leaves for good, so nothing else closes the window of the idle worker."""
    two = WorkerRules(2, 65_536, 512, 2)
    rules = FixedRules(
        isolation=Isolation.SHARED,
        policy="priority",
        workers=two,
        preemption=FREELY,
        batch_wait_us=100_000,
    )
    bench = Bench(rules)
    bench.worker(total_kv_blocks=20)
    bench.enqueue("low", prompt_tokens=200)
    bench.advance(100_000)
    bench.enqueue("high", priority=50, prompt_tokens=200)
    low = bench.out.dispatches[0]
    assert bench.out.preempts == [low.key]
    bench.scheduler.withdraw(GATEWAY, "low")
    gone(bench, low)
    assert bench.dispatched_ids() == ["low", "high"]


def test_a_claimant_whose_tenant_has_come_to_its_cap_gets_no_place() -> None:
    rules = FixedRules(
        isolation=Isolation.SHARED,
        policy="priority",
        workers=ONE,
        preemption=FREELY,
        tenants={"capped": TenantRules(1, 1, 0)},
    )
    bench = Bench(rules)
    bench.worker()
    bench.worker("w2", model="n")
    bench.enqueue("low", "t")
    bench.enqueue("high", "capped", priority=50)
    low = bench.out.dispatches[0]
    bench.enqueue("elsewhere", "capped", model="n")
    give(bench, low)
    gone(bench, low)
    assert bench.dispatched_ids() == ["low", "elsewhere", "low"]


def test_a_claim_of_whom_nothing_waits_any_more_keeps_no_other_lane_out() -> None:
    bench = Bench(FixedRules(isolation=Isolation.SHARED, policy="priority", preemption=FREELY))
    bench.rules.workers = ONE
    bench.worker(model_version="v1")
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    low = bench.out.dispatches[0]
    assert bench.out.preempts == [low.key]
    bench.scheduler.withdraw(GATEWAY, "high")
    bench.scheduler.pump()
    bench.end(low)
    bench.enqueue("versioned", version="v1")
    assert bench.dispatched_ids() == ["low", "versioned"]


def test_a_claimant_takes_its_place_and_waits_for_no_session() -> None:
    bench = bench_of()
    bench.worker("w2")
    bench.rules.placement = PlacementRules(session_wait_us=20 * SECOND)
    bench.enqueue("turn", session_id="s")
    turn = bench.out.dispatches[0]
    bench.end(turn)
    bench.enqueue("again", session_id="s")
    home = bench.out.dispatches[1]
    assert home.worker.worker_id == turn.worker.worker_id
    bench.start(home, output=1)
    bench.enqueue("low", prompt_tokens=400)
    low = bench.out.dispatches[2]
    bench.enqueue("high", priority=50, session_id="s", prompt_tokens=400)
    assert bench.out.preempts == [low.key]
    give(bench, low)
    gone(bench, low)
    assert bench.out.dispatches[3].key == AttemptKey("high", 1)
    assert bench.out.dispatches[3].worker.worker_id == low.worker.worker_id


def test_nothing_of_a_claim_outlives_the_term() -> None:
    """Else the worker would be kept from other lanes, for a lane that is there no more."""
    bench = bench_of()
    bench.enqueue("low")
    bench.enqueue("high", priority=50)
    assert len(bench.out.preempts) == 1
    bench.scheduler.vacate()
    assert bench.scheduler.next_wake_us() is None
    bench.worker(model_version="v1")
    bench.enqueue("versioned", version="v1")
    assert bench.dispatched_ids() == ["low", "versioned"]
    bench.advance(2 * SECOND)


def test_a_request_that_only_the_claimed_worker_can_run_waits_for_it() -> None:
    """It is kept from that worker for a moment; it is not too large."""
    bench = bench_of()
    bench.worker("w1", model_version="v1")
    bench.worker("w2", model_version="v1", total_kv_blocks=2)
    bench.enqueue("low", prompt_tokens=400)
    bench.enqueue("high", priority=50, prompt_tokens=400)
    low = bench.out.dispatches[0]
    assert (low.worker.worker_id, bench.out.preempts) == ("w1", [low.key])
    bench.enqueue("large", version="v1", prompt_tokens=400)
    assert bench.out.rejections == []
    give(bench, low)
    gone(bench, low)
    bench.end(bench.out.dispatches[1])
    assert bench.dispatched_ids()[:2] == ["low", "high"]
    bench.end(bench.out.dispatches[2])
    assert set(bench.dispatched_ids()[2:]) == {"low", "large"}
