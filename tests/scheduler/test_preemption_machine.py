"""Random lives under pre-emption by policy: every cap holds whatever happens."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules
from weir_core.errors import Reason
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.dispatch.preemption import BURST
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import Isolation, TenantRules, WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage

WORKERS = ("w1", "w2")
RULES = PreemptionRules(
    max_overtakings=3, max_preemptions=2, max_overtake_ratio_millis=300, place_wait_us=SECOND
)


class PreemptionMachine(RuleBasedStateMachine):
    """Two workers of a version, so of two lanes; one tenant may run one request at once.

    Gateways answer, are late, or have streamed meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()
        rules = FixedRules(
            isolation=Isolation.SHARED,
            policy="priority",
            workers=WorkerRules(1, 65_536, 512, 1),
            preemption=RULES,
            tenants={"capped": TenantRules(1, 1, 0)},
        )
        self.bench = Bench(rules)
        for worker_id in WORKERS:
            self.bench.worker(worker_id, model_version="v1")
        self.urgency: dict[str, tuple[bool, int]] = {}
        self.streamed: set[AttemptKey] = set()
        self.answered: set[AttemptKey] = set()
        self.over: set[AttemptKey] = set()
        self.given: Counter[str] = Counter()

    def dispatch_of(self, key: AttemptKey) -> Dispatch:
        return next(d for d in self.bench.out.dispatches if d.key == key)

    def live(self) -> list[Dispatch]:
        return [d for d in self.bench.out.dispatches if d.key not in self.over]

    @rule(
        burst=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=4),
        tenant=st.sampled_from(["t", "t", "capped"]),
        version=st.sampled_from(["", "", "v1"]),
        session_id=st.sampled_from(["", "s"]),
    )
    def enqueue(self, burst: list[tuple[int, bool]], tenant: str = "t", **fields: str) -> None:
        for priority, interactive in burst:
            request_id = f"r{len(self.urgency)}"
            self.urgency[request_id] = (interactive, priority)
            request_class = RequestClass.INTERACTIVE if interactive else RequestClass.BATCH
            self.bench.enqueue(
                request_id, tenant, priority=priority, request_class=request_class, **fields
            )

    @precondition(lambda self: bool(self.live()))
    @rule(data=st.data())
    def stream(self, data: st.DataObject) -> None:
        dispatch = data.draw(st.sampled_from(self.live()))
        self.streamed.add(dispatch.key)
        self.bench.first_token(dispatch)

    @precondition(lambda self: bool(self.live()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.end_one(data.draw(st.integers(0, 10)))

    def end_one(self, number: int = 0) -> None:
        """The most urgent first, so that the less urgent are there to be pre-empted."""
        live = sorted(self.live(), key=lambda d: self.urgency[d.key.request_id], reverse=True)
        if live:
            dispatch = live[number % len(live)]
            self.over.add(dispatch.key)
            self.bench.end(dispatch, output=1)

    @rule(answers=st.integers(0, 3))
    def answer(self, answers: int) -> None:
        """The gateway reads what it was asked; the worker ends what was given up."""
        if answers:
            self.give_back()

    @rule()
    def contend(self) -> None:
        """Offline work, more urgent work, and a gateway that answers at once."""
        self.enqueue([(0, False)])
        self.enqueue([(3, True)])
        self.give_back()
        self.end_one()

    def give_back(self) -> None:
        for key in self.bench.out.preempts:
            if key in self.answered or key in self.streamed or key in self.over:
                continue
            self.answered.add(key)
            self.over.add(key)
            self.given[key.request_id] += 1
            dispatch = self.dispatch_of(key)
            self.bench.fail(dispatch, Reason.PREEMPTED, worker_fault=False)
            end = AttemptEnd(key, AttemptUsage(prompt_tokens=5))
            self.bench.running[dispatch.worker.worker_id].pop(key, None)
            self.bench.report(dispatch.worker.worker_id, finished=[end])

    @precondition(lambda self: bool(self.urgency))
    @rule(number=st.integers(0, 10_000))
    def withdraw(self, number: int) -> None:
        request_id = f"r{number % len(self.urgency)}"
        self.bench.scheduler.withdraw(GATEWAY, request_id)
        self.bench.scheduler.pump()
        for worker_id, key in self.bench.out.aborts:
            if key.request_id == request_id and key not in self.over:
                self.over.add(key)
                self.bench.report(worker_id, finished=[AttemptEnd(key, AttemptUsage())])

    @rule(tenths=st.integers(1, 15))
    def wait(self, tenths: int) -> None:
        for _ in range(tenths):
            self.bench.clock.advance_us(SECOND // 10)
            self.bench.scheduler.pump()
        for dispatch in self.live():
            self.bench.start(dispatch, output=int(dispatch.key in self.streamed))

    @invariant()
    def nothing_that_streams_is_asked_or_cut(self) -> None:
        assert not self.answered & self.streamed
        assert self.bench.out.lost == []
        asked_first = Counter(self.bench.out.preempts)
        assert not asked_first or max(asked_first.values()) == 1

    @invariant()
    def the_victim_is_strictly_less_urgent(self) -> None:
        for claim in self.bench.scheduler._preempter._claims.values():
            claimant = self.urgency[claim.request_id]
            assert claimant > self.urgency[claim.victim.request_id]
            record = self.bench.scheduler._state.requests.get(claim.request_id)
            assert record is None or record.preemptions == 0, "no cascade"

    @invariant()
    def no_claim_outlives_its_cause(self) -> None:
        self.bench.scheduler.pump()
        now_us = self.bench.clock.monotonic_us()
        for claim in self.bench.scheduler._preempter._claims.values():
            record = self.bench.scheduler._state.requests.get(claim.request_id)
            assert record is not None
            assert record.waits
            assert claim.deadline_us > now_us

    @invariant()
    def a_tenant_runs_no_more_than_it_may(self) -> None:
        assert self.bench.scheduler._state.attempts.running_of("capped") <= 1

    @invariant()
    def caps_of_requests_hold(self) -> None:
        assert all(count <= RULES.max_preemptions for count in self.given.values())
        for record in self.bench.scheduler._state.requests:
            assert record.overtaken <= RULES.max_overtakings
            assert record.preemptions == self.given[record.entry.request_id]

    @invariant()
    def the_share_of_dispatches_holds(self) -> None:
        counts = self.bench.scheduler.preemptions
        dispatches = len(self.bench.out.dispatches)
        ratio = RULES.max_overtake_ratio_millis
        assert counts.given * 1_000 <= ratio * dispatches + 1_000
        assert counts.given <= counts.asked <= counts.given + len(self.bench.out.preempts)
        assert counts.asked * 1_000 <= ratio * dispatches + BURST * 1_000 + 1_000 * len(
            self.streamed
        )

    @invariant()
    def nothing_is_rejected_for_being_pre_empted(self) -> None:
        assert all(cause.reason is not Reason.PREEMPTED for _, cause in self.bench.out.rejections)

    def teardown(self) -> None:
        """Everybody leaves: nothing may be left behind."""
        self.bench.scheduler.gateway_lost(GATEWAY)
        self.bench.scheduler.pump()
        for worker_id in WORKERS:
            ends = [AttemptEnd(d.key, AttemptUsage()) for d in self.bench.out.dispatches]
            self.bench.running[worker_id].clear()
            self.bench.report(worker_id, finished=ends)
        self.bench.clock.advance_us(2 * SECOND)
        self.bench.scheduler.pump()
        scheduler = self.bench.scheduler
        assert (scheduler.waiting, scheduler.requests, scheduler.attempts) == (0, 0, 0)
        assert scheduler._state.attempts._unstarted == {}


PreemptionMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None
)
TestPreemptionMachine = PreemptionMachine.TestCase


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_many_more_lives() -> None:
    run_state_machine_as_test(
        PreemptionMachine, settings=settings(max_examples=1_000, deadline=None)
    )
