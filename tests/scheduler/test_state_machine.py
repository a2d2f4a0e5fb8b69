"""Random lives of requests, gateways and workers: what must hold whatever happens.

Every wait ends in exactly one exit, every request in at most one terminal event, no attempt is
dispatched twice or to a worker that may not have it, counters are what the tables say, and
everything returns to zero.
"""

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.scheduler.support import SECOND, Bench, FixedRules, new_request, worker_info
from weir_core.errors import Reason
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.group import GROUPS
from weir_scheduler.rules.rules import Isolation, TenantRules, WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptProgress,
    AttemptUsage,
    WorkerLoad,
    WorkerReport,
)

GATEWAYS = ("g1", "g2")
TENANTS = ("a", "b", "capped")
WORKERS = ("w1", "w2", "w3")
CAP = 2
Drawn = tuple[str, str, int, int, int, bool, int]
REQUESTS = st.tuples(
    st.sampled_from(GATEWAYS),
    st.sampled_from(TENANTS),
    st.integers(1, 90),
    st.integers(1, 40),
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 60),
)


class SchedulerMachine(RuleBasedStateMachine):
    """The world around one scheduler: what really runs where is known here."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(5)
        isolation = Isolation.WEIGHTED
        rules = FixedRules(
            isolation=isolation,
            policy="priority",
            batch_wait_us=5_000,
            queue_timeout_us=20 * SECOND,
            tenants={"capped": TenantRules(1, CAP, 0)},
            workers=WorkerRules(4, 200, 512, 3),
        )
        self.bench = Bench(rules)
        self.scheduler = self.bench.scheduler
        self.count = 0
        self.owner: dict[str, str] = {}
        self.at_worker: dict[str, dict[AttemptKey, int]] = {}
        self.connected: set[str] = set()
        self.seen = 0

    @initialize(count=st.integers(0, 3), burst=st.lists(REQUESTS, min_size=4, max_size=16))
    def begin(self, count: int, burst: list[Drawn]) -> None:
        for worker_id in WORKERS[:count]:
            self.connect(worker_id)
        self.enqueue_all(burst)

    @rule(burst=st.lists(REQUESTS, min_size=1, max_size=6))
    def enqueue(self, burst: list[Drawn]) -> None:
        self.enqueue_all(burst)

    def enqueue_all(self, burst: list[Drawn]) -> None:
        for gateway, tenant, prompt, output, priority, batch, lifetime_s in burst:
            self.count += 1
            request_id = f"r{self.count}"
            self.owner[request_id] = gateway
            request = new_request(
                request_id,
                tenant,
                prompt_tokens=prompt,
                max_new_tokens=output,
                priority=priority,
                request_class=RequestClass.BATCH if batch else RequestClass.INTERACTIVE,
                deadline_wall_us=self.bench.clock.now_us() + lifetime_s * SECOND,
            )
            self.scheduler.enqueue(gateway, request)
        self.pump()

    @precondition(lambda self: self.count > 0)
    @rule(number=st.integers(0, 10_000))
    def withdraw(self, number: int) -> None:
        request_id = f"r{1 + number % self.count}"
        self.scheduler.withdraw(self.owner[request_id], request_id)
        self.pump()

    @rule(worker_id=st.sampled_from(WORKERS))
    def connect(self, worker_id: str) -> None:
        if worker_id in self.connected:
            return
        self.connected.add(worker_id)
        running = self.at_worker.setdefault(worker_id, {})
        self.scheduler.register_worker(worker_info(worker_id, total_kv_blocks=12), list(running))
        self.report(worker_id)

    @precondition(lambda self: bool(self.connected))
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        worker_id = data.draw(st.sampled_from(sorted(self.connected)))
        self.connected.discard(worker_id)
        self.scheduler.worker_disconnected(worker_id)
        if data.draw(st.booleans()):
            self.at_worker[worker_id].clear()
        self.pump()

    @precondition(lambda self: bool(self.connected))
    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """A worker makes progress, may end some attempts, and reports."""
        worker_id = data.draw(st.sampled_from(sorted(self.connected)))
        running = self.at_worker[worker_id]
        ends = []
        for key in list(running):
            running[key] += data.draw(st.integers(0, 5))
            if data.draw(st.integers(0, 3)) == 0:
                usage = AttemptUsage(1, 0, running.pop(key))
                ends.append(AttemptEnd(key, usage, failed=data.draw(st.booleans())))
        self.report(worker_id, ends)
        for end in ends:
            self.tell_end(end)

    @precondition(lambda self: bool(self.bench.out.dispatches))
    @rule(data=st.data(), fault=st.booleans())
    def fail(self, data: st.DataObject, fault: bool) -> None:
        dispatch = data.draw(st.sampled_from(self.bench.out.dispatches[-6:]))
        gateway = self.owner[dispatch.key.request_id]
        reason = Reason.WORKER_LOST if fault else Reason.GRANT_INVALID
        self.scheduler.attempt_failed(gateway, dispatch.key, reason, worker_fault=fault)
        self.pump()

    @precondition(lambda self: bool(self.bench.out.dispatches))
    @rule(data=st.data())
    def first_token(self, data: st.DataObject) -> None:
        dispatch = data.draw(st.sampled_from(self.bench.out.dispatches[-6:]))
        self.scheduler.first_token(self.owner[dispatch.key.request_id], dispatch.key)
        self.pump()

    @rule(gateway=st.sampled_from(GATEWAYS), chance=st.integers(0, 4))
    def lose_gateway(self, gateway: str, chance: int) -> None:
        if chance == 4:
            self.scheduler.gateway_lost(gateway)
            self.pump()

    @precondition(lambda self: bool(self.connected))
    @rule(data=st.data(), chance=st.integers(0, 3))
    def drain(self, data: st.DataObject, chance: int) -> None:
        worker_id = data.draw(st.sampled_from(sorted(self.connected)))
        self.scheduler.drain_worker(worker_id, cancel=chance > 0)
        self.pump()

    @rule(tenths=st.integers(1, 40))
    def wait(self, tenths: int) -> None:
        for _ in range(tenths):
            self.bench.clock.advance_us(SECOND // 10)
            self.pump()

    def report(self, worker_id: str, ends: list[AttemptEnd] | None = None) -> None:
        running = self.at_worker[worker_id]
        progress = tuple(
            AttemptProgress(key, AttemptUsage(1, 0, output), 1) for key, output in running.items()
        )
        load = WorkerLoad(free_kv_blocks=12 - len(running), held_kv_blocks=len(running))
        self.scheduler.worker_report(worker_id, WorkerReport(load, progress, tuple(ends or ())))
        self.pump()

    def tell_end(self, end: AttemptEnd) -> None:
        gateway = self.owner[end.key.request_id]
        if not end.failed:
            self.scheduler.finish(gateway, end.key, end.usage)
        elif end.usage.completion_tokens == 0:
            self.scheduler.attempt_failed(gateway, end.key, Reason.ENGINE_FAILED, worker_fault=True)
        else:
            self.scheduler.finish(gateway, end.key, end.usage)
        self.pump()

    def pump(self) -> None:
        """Pumps, and lets connected workers take (or lose on the way) what was dispatched."""
        self.scheduler.pump()
        for dispatch in self.bench.out.dispatches[self.seen :]:
            self.seen += 1
            self.take(dispatch)
        for worker_id, key in self.bench.out.aborts:
            self.at_worker.get(worker_id, {}).pop(key, None)
        self.bench.out.aborts.clear()

    def take(self, dispatch: Dispatch) -> None:
        worker_id = dispatch.worker.worker_id
        assert worker_id in self.connected, "dispatched to a worker that is not connected"
        if self.rng.random() < 0.85:
            self.at_worker[worker_id][dispatch.key] = 0

    @invariant()
    def every_wait_has_one_exit(self) -> None:
        entered = Counter(self.bench.seen.entered_ids)
        left = Counter(request_id for request_id, _ in self.bench.seen.exits)
        assert not left - entered
        assert (entered - left).total() == self.scheduler.waiting

    @invariant()
    def every_attempt_is_dispatched_once_and_numbers_grow(self) -> None:
        keys = [dispatch.key for dispatch in self.bench.out.dispatches]
        assert len(keys) == len(set(keys))
        newest: dict[str, int] = {}
        for key in keys:
            assert key.number == newest.get(key.request_id, 0) + 1
            newest[key.request_id] = key.number

    @invariant()
    def every_request_is_ended_at_most_once(self) -> None:
        ended = Counter(request_id for request_id, _ in self.bench.out.rejections)
        ended.update(key.request_id for key, _ in self.bench.out.lost)
        assert not ended or max(ended.values()) == 1

    @invariant()
    def counters_agree_with_the_tables(self) -> None:
        attempts = list(self.scheduler._state.attempts)
        assert sum(1 for a in attempts if a.tenant_id == "capped") <= CAP
        for worker in self.scheduler.workers():
            live = {a.key for a in attempts if a.worker_id == worker.info.worker_id}
            assert set(worker.pending) <= live
            holdings = [*worker.pending.values(), *worker.reported.values()]
            view = worker.view(self.bench.clock.monotonic_us())
            assert view.requests == len(holdings)
            assert view.cost == sum(holding.cost for holding in holdings)
            free = worker.load.free_kv_blocks - sum(h.kv_blocks_due for h in holdings)
            assert view.free_kv_blocks == free
            if worker.lost:
                assert not live
        lanes = self.scheduler._state.lanes.values()
        for lane in lanes:
            for tenant in {entry.tenant_id for entry in lane.entries()}:
                assert lane.is_blocked(tenant) == self.scheduler._state.at_cap(tenant)
            counted = sum(lane.backlog(group).everyone.whole.cost for group in GROUPS)
            assert counted == sum(entry.estimated_cost for entry in lane.entries())
        waiting = self.scheduler._waiting
        assert sum(len(lane) for lane in lanes) + sum(
            len(of_lane) for of_lane in waiting._stranded.values()
        ) == len(waiting)

    @invariant()
    def what_placement_sees_is_what_there_is(self) -> None:
        """Views are updated by what has changed alone: nothing may be missed."""
        state, now_us = self.scheduler._state, self.bench.clock.monotonic_us()
        for key in state.lanes:
            index = state.fleet.index(key, now_us)
            index.refresh(now_us)
            workers = {w.info.worker_id: w.view(now_us) for w in state.fleet.serving(key)}
            assert index.views == workers
            taking = [view for view in workers.values() if view.takes_work]
            least = [view.info.worker_id for view in index.least_loaded()]
            assert sorted(least) == sorted(v.info.worker_id for v in taking if not v.full)
            recent = sum(view.recent for view in taking) / max(1, len(taking))
            assert index.mean_recent == pytest.approx(recent)

    def teardown(self) -> None:
        """Everybody leaves: nothing may be left behind."""
        for gateway in GATEWAYS:
            self.scheduler.gateway_lost(gateway)
        self.pump()
        for _ in range(12):
            for worker_id in sorted(self.connected):
                ends = [
                    AttemptEnd(key, AttemptUsage(1, 0, output))
                    for key, output in self.at_worker[worker_id].items()
                ]
                self.at_worker[worker_id].clear()
                self.report(worker_id, ends)
            self.bench.clock.advance_us(SECOND)
            self.pump()
        assert self.scheduler.waiting == 0
        assert self.scheduler.requests == 0
        assert self.scheduler.attempts == 0
        assert all(worker.requests == 0 for worker in self.scheduler.workers())
        assert self.scheduler._waiting._by_tenant == {}
        assert self.scheduler._state.attempts._by_tenant == {}


SchedulerMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None
)
TestSchedulerMachine = SchedulerMachine.TestCase


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_many_more_lives() -> None:
    run_state_machine_as_test(
        SchedulerMachine, settings=settings(max_examples=3_000, deadline=None)
    )
