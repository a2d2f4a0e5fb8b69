"""Refusals that come early, and a Retry-After that holds."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, new_request
from weir_core.errors import Reason
from weir_scheduler.dispatch.promises import Promises
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import Isolation, TenantRules, WorkerRules
from weir_scheduler.rules.shedding_rules import ShedCurve, SheddingRules
from weir_scheduler.rules.slo_targets import SloTargets
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage

SLOTS = 8


@dataclass
class Client:
    """One request of one client, and what became of its tries."""

    name: str
    tenant: str
    arrival_us: int
    priority: int = 0
    prompt_tokens: int = 10
    told: list[float] = field(default_factory=list)
    served_us: int | None = None

    @property
    def tries(self) -> int:
        return len(self.told) + (self.served_us is not None)


class Rush:
    """Clients that obey Retry-After, at one worker with some slots and random service times."""

    def __init__(self, rules: FixedRules, seed: int, service_s: float = 1.0) -> None:
        rules.workers = WorkerRules(SLOTS, 65_536, 512, SLOTS)
        # Where each stands is told to nobody here.
        self.bench = Bench(rules, announce_us=3_600 * SECOND)
        self.bench.worker(total_kv_blocks=10_000)
        self.random = random.Random(seed)
        self.service_s = service_s
        self.began_us = self.bench.clock.monotonic_us()
        self.events: list[tuple[int, int, str, Any]] = []
        self.clients: dict[str, Client] = {}
        self.sequence = 0
        self.seen = 0
        self.refused = 0
        self.timeouts = 0

    def at(self, when_us: int, kind: str, what: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (when_us, self.sequence, kind, what))

    def add(self, client: Client) -> None:
        self.clients[client.name] = client
        self.at(client.arrival_us, "arrive", client)

    def poisson(
        self, tenant: str, per_s: float, begin_s: float, end_s: float, priority: int = 0
    ) -> None:
        at_s = begin_s
        while (at_s := at_s + self.random.expovariate(per_s)) < end_s:
            name = f"{tenant}-{len(self.clients)}"
            tokens = self.random.randint(5, 400)
            self.add(Client(name, tenant, round(at_s * SECOND), priority, tokens))

    def run(self) -> None:
        scheduler, clock = self.bench.scheduler, self.bench.clock
        self.at(500_000, "report", None)
        while self.seen < len(self.clients):
            wake_us = scheduler.next_wake_us()
            due_us = self.began_us + self.events[0][0]
            if wake_us is not None and wake_us < due_us:
                clock.advance_us(max(0, wake_us - clock.monotonic_us()))
            else:
                clock.advance_us(max(0, due_us - clock.monotonic_us()))
                when_us, _, kind, what = heapq.heappop(self.events)
                getattr(self, f"on_{kind}")(when_us, what)
            scheduler.pump()
            self.collect()
            assert clock.monotonic_us() - self.began_us < 3_600 * SECOND, "it never ends"

    def on_arrive(self, when_us: int, client: Client) -> None:
        request_id = f"{client.name}/{client.tries}"
        request = new_request(
            request_id,
            client.tenant,
            priority=client.priority,
            prompt_tokens=client.prompt_tokens,
        )
        # One user each: what is sent again is told by its caller and its prompt.
        subject = replace(request.subject, user_id=client.name)
        self.bench.scheduler.enqueue(GATEWAY, replace(request, subject=subject))

    def on_end(self, when_us: int, dispatch: Any) -> None:
        usage = AttemptUsage(prompt_tokens=10, completion_tokens=10)
        self.bench.running["w1"].pop(dispatch.key)
        self.bench.scheduler.finish(GATEWAY, dispatch.key, usage)
        self.bench.report(finished=[AttemptEnd(dispatch.key, usage)])

    def on_report(self, when_us: int, _: None) -> None:
        self.bench.report()
        self.at(when_us + 500_000, "report", None)

    def collect(self) -> None:
        now_us = self.bench.clock.monotonic_us() - self.began_us
        for dispatch in self.bench.out.dispatches[self.seen :]:
            client = self.clients[dispatch.key.request_id.rpartition("/")[0]]
            client.served_us = now_us
            self.bench.start(dispatch)
            lasts_us = round(self.random.expovariate(1 / self.service_s) * SECOND)
            self.at(now_us + lasts_us, "end", dispatch)
        self.seen = len(self.bench.out.dispatches)
        for request_id, cause in self.bench.out.rejections[self.refused :]:
            assert cause.retry_after_s is not None, cause
            client = self.clients[request_id.rpartition("/")[0]]
            client.told.append(cause.retry_after_s)
            self.timeouts += cause.reason is Reason.QUEUE_TIMEOUT
            # Clients sleep a little longer than they are told to, never less.
            late_s = self.random.uniform(0.0, 0.2)
            again_us = now_us + round((cause.retry_after_s + late_s) * SECOND)
            self.at(again_us, "arrive", client)
        self.refused = len(self.bench.out.rejections)

    def honesty(self) -> float:
        """Of the clients that were refused, the part that was let in at its next try."""
        refused = [client for client in self.clients.values() if client.told]
        assert len(refused) > 30, "nobody was refused: the run shows nothing"
        return sum(len(client.told) == 1 for client in refused) / len(refused)


def one_tenant(seed: int) -> Rush:
    """Four times what the worker can do, then half of it."""
    rush = Rush(FixedRules(queue_timeout_us=10 * SECOND), seed)
    rush.poisson("t", 16, 0, 20)
    rush.poisson("t", 4, 20, 40)
    return rush


def several_tenants(seed: int, isolation: Isolation) -> Rush:
    """Twice what it can do, from four tenants."""
    rush = Rush(FixedRules(queue_timeout_us=10 * SECOND, isolation=isolation), seed)
    for tenant in "abcd":
        rush.poisson(tenant, 4, 0, 20)
    return rush


def limit_of_tenant(seed: int) -> Rush:
    rush = Rush(FixedRules(tenants={"t": TenantRules(1, 0, 30)}), seed)
    rush.poisson("t", 16, 0, 20)
    return rush


def limit_of_model(seed: int) -> Rush:
    rush = Rush(FixedRules(max_queued_requests=40), seed)
    for tenant in "ab":
        rush.poisson(tenant, 8, 0, 20)
    return rush


@pytest.mark.parametrize(
    "scenario",
    [
        one_tenant,
        lambda seed: several_tenants(seed, Isolation.WEIGHTED),
        lambda seed: several_tenants(seed, Isolation.SHARED),
        limit_of_tenant,
        limit_of_model,
    ],
    ids=["wait", "wait-weighted", "wait-shared", "tenant-limit", "model-limit"],
)
def test_who_obeys_retry_after_is_let_in_the_next_time(scenario: Any) -> None:
    rush = scenario(1)
    rush.run()
    assert rush.honesty() >= 0.95
    # Early: hardly anybody is left to wait in vain.
    assert rush.timeouts <= 0.04 * len(rush.clients)
    assert rush.bench.scheduler.waiting == 0


def test_without_a_moment_of_its_own_for_each_it_would_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: everybody is told when the queue as it is now will have room."""

    def book(
        _: Promises, key: Any, print_: Any, now_us: int, wait_s: float, each_s: float
    ) -> float:
        return max(1.0, wait_s)

    monkeypatch.setattr(Promises, "book", book)
    rush = one_tenant(1)
    rush.run()
    assert rush.honesty() < 0.7


class TestEarly:
    """A worker that ends one request a second, and 40 that wait."""

    def bench(self, **fields: Any) -> Bench:
        bench = Bench(FixedRules(workers=WorkerRules(1, 65_536, 512, 1), **fields))
        bench.worker()
        for number in range(28):
            bench.enqueue(f"a{number}")
        for at in range(8):
            bench.advance_reporting(SECOND)
            bench.end(bench.out.dispatches[at])
        assert bench.out.rejections == []
        return bench

    def test_what_would_wait_in_vain_is_refused_at_once_with_both_times(self) -> None:
        bench = self.bench(queue_timeout_us=15 * SECOND)
        bench.enqueue("late")
        [(request_id, cause)] = bench.out.rejections
        assert (request_id, cause.reason) == ("late", Reason.OVERLOADED)
        assert "queue_timeout_ms allows 15.0 s" in cause.message
        assert cause.metadata["limit"] == "queue_timeout_ms"
        assert cause.retry_after_s is not None
        assert 5 <= cause.retry_after_s <= 20

    def test_the_same_request_that_comes_too_early_is_told_the_same_moment(self) -> None:
        bench = self.bench(queue_timeout_us=15 * SECOND)
        bench.enqueue("late")
        bench.advance(SECOND)
        bench.enqueue("late-again")
        first, second = (cause.retry_after_s or 0 for _, cause in bench.out.rejections)
        assert second == pytest.approx(first - 1, abs=0.01)

    def test_offline_work_is_not_refused_for_its_wait(self) -> None:
        bench = self.bench(queue_timeout_us=15 * SECOND)
        bench.enqueue("offline", request_class=RequestClass.BATCH)
        assert bench.out.rejections == []

    def test_what_was_let_in_elsewhere_is_not_judged_again(self) -> None:
        bench = self.bench(queue_timeout_us=15 * SECOND)
        bench.enqueue("moved", attempts=1)
        assert bench.out.rejections == []

    def test_a_tenants_target_refuses_earlier_where_that_is_wanted(self) -> None:
        slo = SloTargets(ttft_us=5 * SECOND, shed=True)
        tenants = {"strict": TenantRules(1, 0, 0, slo), "lax": TenantRules(1, 0, 0)}
        bench = self.bench(isolation=Isolation.SHARED, tenants=tenants)
        bench.enqueue("lax", "lax")
        bench.enqueue("strict", "strict")
        [(request_id, cause)] = bench.out.rejections
        assert request_id == "strict"
        assert cause.metadata["limit"] == "slo.ttft_ms"

    @pytest.mark.parametrize("curve", [ShedCurve.HOLDBACK, ShedCurve.GATE])
    def test_low_priorities_give_way_first(self, curve: ShedCurve) -> None:
        shedding = SheddingRules(curve, from_millis=500)
        bench = self.bench(
            queue_timeout_us=30 * SECOND, shedding=shedding, isolation=Isolation.SHARED
        )
        # Some 20 s of 30: between the bound of priority 0 and that of priority 100.
        bench.enqueue("low", priority=0)
        bench.enqueue("high", priority=100)
        refused = [request_id for request_id, _ in bench.out.rejections]
        assert refused == (["low"] if curve is ShedCurve.HOLDBACK else [])

    def test_a_queue_that_was_idle_predicts_nothing(self) -> None:
        bench = Bench(FixedRules(workers=WorkerRules(64, 65_536, 512, 64)))
        bench.worker(total_kv_blocks=1_000)
        for number in range(20):
            bench.enqueue(f"a{number}")
            bench.end(bench.out.dispatches[number])
        bench.advance_reporting(600 * SECOND)
        for number in range(200):
            bench.enqueue(f"b{number}")
        assert bench.out.rejections == []

    def test_case_24_smg_2220_it_is_looked_at_again_before_it_is_dispatched(self) -> None:
        """What has waited too long is not sent to a worker that has just become free."""
        bench = self.bench(queue_timeout_us=30 * SECOND)
        bench.clock.advance_us(31 * SECOND)
        sent = len(bench.out.dispatches)
        bench.end(bench.out.dispatches[-1])
        assert len(bench.out.dispatches) == sent
        assert {cause.reason for _, cause in bench.out.rejections} == {Reason.QUEUE_TIMEOUT}


def test_case_2_gaie_2103_a_full_queue_refuses_at_the_limit_and_never_holds_more() -> None:
    bench = Bench(FixedRules(max_queued_requests=10, workers=WorkerRules(1, 65_536, 512, 1)))
    bench.worker()
    for number in range(50):
        bench.enqueue(f"a{number}", f"t{number % 7}")
        assert bench.scheduler.waiting <= 10
    assert len(bench.out.rejections) == 39
    assert {cause.reason for _, cause in bench.out.rejections} == {Reason.QUEUE_FULL}
    assert Counter(cause.metadata["scope"] for _, cause in bench.out.rejections) == {"model": 39}


def test_case_6_litellm_6867_priority_counts_while_workers_are_healthy_but_full() -> None:
    bench = Bench(FixedRules(policy="priority", workers=WorkerRules(1, 65_536, 512, 1)))
    bench.worker()
    for name, priority in [("first", 0), ("low", 1), ("high", 9)]:
        bench.enqueue(name, priority=priority)
    assert bench.scheduler.waiting == 2
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["first", "high"]
