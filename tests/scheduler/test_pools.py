"""Which pool a request goes to, and what becomes of it when that has no workers."""

from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_core.errors import Reason
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.pool_scope import PoolScope, PromptLength, WhenGone
from weir_scheduler.rules.rules import Isolation, PoolRules, TenantRules, WorkerRules

ONE = WorkerRules(1, 65_536, 512, 1)
BATCH, INTERACTIVE = RequestClass.BATCH, RequestClass.INTERACTIVE


def pool(name: str, when_gone: WhenGone = WhenGone.SHARED, **scope: Any) -> PoolRules:
    return PoolRules(
        name, Isolation.WEIGHTED, "fifo", scope=PoolScope(**scope), when_gone=when_gone
    )


LONG = pool("long", length=PromptLength.LONG, profiles=frozenset({"big"}))
OFFLINE = pool("offline", request_class=BATCH, profiles=frozenset({"cheap"}))


def vip(when_gone: WhenGone) -> PoolRules:
    return PoolRules(
        "vip", Isolation.DEDICATED, "fifo", scope=PoolScope(tenant_id="vip"), when_gone=when_gone
    )


def placed(bench: Bench) -> dict[str, str]:
    return {d.key.request_id: d.worker.worker_id for d in bench.out.dispatches}


def reason(bench: Bench, request_id: str) -> WaitReason:
    [record] = [r for r in bench.scheduler.queued() if r.entry.request_id == request_id]
    return bench.scheduler.place(record)[1]


class TestLength:
    def rules(self, **fields: Any) -> FixedRules:
        return FixedRules(further=(LONG,), long_context_threshold=100, **fields)

    def test_long_prompts_go_to_their_own_workers_and_short_ones_never_do(self) -> None:
        bench = Bench(self.rules(workers=ONE))
        bench.worker("usual")
        bench.worker("big", profile="big")
        bench.enqueue("edge", prompt_tokens=100)
        bench.enqueue("long", prompt_tokens=101)
        bench.enqueue("waits")
        assert placed(bench) == {"edge": "usual", "long": "big"}
        assert reason(bench, "waits") is WaitReason.WORKER_FULL

    def test_their_own_workers_have_no_cap_of_long_ones(self) -> None:
        bench = Bench(self.rules(workers=WorkerRules(8, 65_536, 512, 8, max_running_long=1)))
        bench.worker("big", profile="big")
        for number in range(3):
            bench.enqueue(f"l{number}", prompt_tokens=150)
        assert len(placed(bench)) == 3

    def test_without_such_workers_they_run_with_the_others_under_their_cap(self) -> None:
        bench = Bench(self.rules(workers=WorkerRules(8, 65_536, 512, 8, max_running_long=1)))
        bench.worker("usual")
        for number in range(3):
            bench.enqueue(f"l{number}", prompt_tokens=150)
        bench.enqueue("short")
        assert placed(bench) == {"l0": "usual", "short": "usual"}
        assert reason(bench, "l1") is WaitReason.LONG_CAP
        assert reason(bench, "l2") is WaitReason.LONG_CAP
        bench.end(bench.out.dispatches[0])
        assert "l1" in placed(bench)

    def test_what_waits_moves_when_the_long_workers_go_and_new_ones_return_to_them(self) -> None:
        bench = Bench(self.rules(workers=ONE))
        bench.worker("usual")
        bench.worker("big", profile="big")
        bench.enqueue("runs", prompt_tokens=150)
        bench.enqueue("waits", prompt_tokens=150)
        assert placed(bench) == {"runs": "big"}
        bench.running.pop("big")
        bench.scheduler.worker_disconnected("big")
        bench.scheduler.pump()
        assert placed(bench)["waits"] == "usual"
        bench.worker("big2", profile="big")
        bench.enqueue("new", prompt_tokens=150)
        assert placed(bench)["new"] == "big2"


class TestClass:
    def test_offline_work_goes_to_the_pool_for_it(self) -> None:
        bench = Bench(FixedRules(further=(OFFLINE,)))
        bench.worker("usual")
        bench.worker("cheap", profile="cheap")
        bench.enqueue("now")
        bench.enqueue("later", request_class=BATCH)
        assert placed(bench) == {"now": "usual", "later": "cheap"}

    def test_a_class_that_no_pool_takes_is_refused_by_name(self) -> None:
        bench = Bench(FixedRules(scope=PoolScope(request_class=INTERACTIVE)))
        bench.worker()
        bench.enqueue("now")
        bench.enqueue("later", request_class=BATCH)
        [(request_id, cause)] = bench.out.rejections
        assert (request_id, cause.reason, cause.field) == ("later", Reason.INVALID_FIELD, "class")
        assert "batch" in cause.message
        assert placed(bench) == {"now": "w1"}


class TestDedicated:
    def bench(self, when_gone: WhenGone) -> Bench:
        bench = Bench(FixedRules(further=(vip(when_gone),), workers=ONE))
        bench.worker("shared")
        bench.worker("own", dedicated_tenant_id="vip")
        return bench

    def lose_own(self, bench: Bench) -> None:
        bench.running.pop("own")
        bench.scheduler.worker_disconnected("own")
        bench.scheduler.pump()

    def test_its_workers_serve_it_alone_and_it_uses_no_others(self) -> None:
        bench = self.bench(WhenGone.REFUSE)
        for number in range(2):
            bench.enqueue(f"v{number}", "vip")
            bench.enqueue(f"o{number}", "other")
        assert placed(bench) == {"v0": "own", "o0": "shared"}

    def test_gone_they_refuse_after_a_short_wait_and_name_the_knob(self) -> None:
        bench = self.bench(WhenGone.REFUSE)
        self.lose_own(bench)
        bench.enqueue("early", "vip")
        assert reason(bench, "early") is WaitReason.NO_WORKER
        bench.advance_reporting(11 * SECOND)
        assert [(id_, c.reason) for id_, c in bench.out.rejections] == [("early", Reason.NO_WORKER)]
        bench.enqueue("late", "vip")
        cause = bench.out.rejections[-1][1]
        assert "pool vip" in cause.message
        assert "when_gone" in cause.message
        assert cause.metadata["limit"] == "when_gone"
        assert "shared" not in placed(bench).values()

    def test_gone_they_may_let_its_requests_wait_as_long_as_any_may(self) -> None:
        bench = self.bench(WhenGone.WAIT)
        self.lose_own(bench)
        bench.enqueue("a", "vip")
        bench.advance_reporting(29 * SECOND)
        assert bench.out.rejections == []
        bench.worker("own2", dedicated_tenant_id="vip")
        assert placed(bench) == {"a": "own2"}

    def test_gone_they_may_leave_them_to_shared_workers(self) -> None:
        bench = self.bench(WhenGone.SHARED)
        bench.enqueue("runs", "vip")
        bench.enqueue("waits", "vip")
        self.lose_own(bench)
        assert placed(bench)["waits"] == "shared"
        bench.enqueue("next", "vip")
        assert reason(bench, "next") is WaitReason.WORKER_FULL


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_tenants_cap_counts_over_all_pools(isolation: Isolation) -> None:
    rules = FixedRules(
        isolation=isolation,
        further=(LONG, OFFLINE),
        long_context_threshold=100,
        tenants={"capped": TenantRules(1, 2, 0)},
    )
    bench = Bench(rules)
    bench.worker("usual")
    bench.worker("big", profile="big")
    bench.worker("cheap", profile="cheap")
    bench.enqueue("a", "capped")
    bench.enqueue("b", "capped", prompt_tokens=150)
    bench.enqueue("c", "capped", request_class=BATCH)
    bench.enqueue("free", "other", request_class=BATCH)
    assert placed(bench) == {"a": "usual", "b": "big", "free": "cheap"}
    assert reason(bench, "c") is WaitReason.TENANT_CAP
    bench.end(bench.out.dispatches[1])
    assert placed(bench)["c"] == "cheap"


def test_a_worker_changes_its_pool_with_the_configuration() -> None:
    bench = Bench(FixedRules(long_context_threshold=100, workers=ONE))
    bench.worker("w", profile="big")
    bench.rules.further = (LONG,)
    bench.scheduler.rules_changed()
    bench.enqueue("short")
    bench.enqueue("long", prompt_tokens=150)
    assert placed(bench) == {"long": "w"}
    assert reason(bench, "short") is WaitReason.NO_WORKER


@pytest.mark.parametrize("when_gone", WhenGone)
def test_what_waits_for_a_pool_that_is_removed_goes_to_the_others(when_gone: WhenGone) -> None:
    night = pool("night", when_gone, request_class=BATCH, profiles=frozenset({"l4"}))
    bench = Bench(FixedRules(further=(night,), workers=ONE))
    bench.worker("usual")
    bench.worker("l4", profile="l4")
    bench.enqueue("first", request_class=BATCH)
    bench.start(bench.out.dispatches[0])
    bench.enqueue("waits", request_class=BATCH)
    assert placed(bench) == {"first": "l4"}
    bench.rules.further = ()
    bench.scheduler.rules_changed()
    bench.scheduler.pump()
    assert placed(bench)["waits"] == "usual"


@pytest.mark.parametrize("removed", [False, True])
def test_what_waits_for_workers_goes_elsewhere_when_that_becomes_allowed(removed: bool) -> None:
    night = pool("night", WhenGone.WAIT, request_class=BATCH, profiles=frozenset({"l4"}))
    bench = Bench(FixedRules(further=(night,), workers=ONE))
    bench.worker("usual")
    bench.enqueue("waits", request_class=BATCH)
    bench.advance_reporting(SECOND)
    assert not placed(bench)
    bench.rules.further = () if removed else (replace(night, when_gone=WhenGone.SHARED),)
    bench.scheduler.rules_changed()
    bench.scheduler.pump()
    assert placed(bench) == {"waits": "usual"}


def test_pools_are_seen_with_what_waits_in_them() -> None:
    bench = Bench(FixedRules(further=(LONG,), long_context_threshold=100, workers=ONE))
    bench.worker("usual")
    bench.worker("big", profile="big")
    bench.enqueue("a")
    bench.enqueue("b", "u")
    seen = {status.rules.name: status for status in bench.scheduler.pools()}
    assert (seen["default"].live_workers, seen["long"].live_workers) == (1, 1)
    waiting = {g.group: (g.waiting, g.tenants) for g in seen["default"].groups if g.waiting}
    assert list(waiting.values()) == [(1, 1)]
    assert seen["long"].groups == ()


def test_every_worker_is_in_one_row_and_every_pool_has_one() -> None:
    bench = Bench(FixedRules(further=(LONG,), long_context_threshold=100))
    bench.worker("usual", model_version="1")
    bench.worker("usual2", model_version="1")
    bench.worker("canary", model_version="2")
    rows = [(s.rules.name, s.key.version, s.workers) for s in bench.scheduler.pools()]
    assert rows == [("default", "1", 2), ("default", "2", 1), ("long", "", 0)]
    bench.enqueue("short", version="1")
    assert len(bench.scheduler.pools()) == 3
