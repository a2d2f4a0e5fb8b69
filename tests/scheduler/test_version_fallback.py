"""A version of a model without live workers, and what serves its requests."""

from typing import Any

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, new_request
from weir_core.errors import Reason
from weir_scheduler.rules.pool_scope import PoolScope, PromptLength, WhenGone
from weir_scheduler.rules.rules import Isolation, PoolRules, WorkerRules

ONE = WorkerRules(1, 65_536, 512, 1)
LONG = PoolRules(
    "long",
    Isolation.WEIGHTED,
    "fifo",
    scope=PoolScope(length=PromptLength.LONG, profiles=frozenset({"big"})),
    when_gone=WhenGone.SHARED,
)


def enqueue(bench: Bench, request_id: str, version: str, *others: str, **fields: Any) -> None:
    request = new_request(request_id, version=version, fallback_versions=others, **fields)
    bench.scheduler.enqueue(GATEWAY, request)
    bench.scheduler.pump()


def served(bench: Bench) -> list[tuple[str, str]]:
    return [(d.key.request_id, d.worker.model_version) for d in bench.out.dispatches]


def test_a_version_without_live_worker_is_served_by_the_next_and_says_so() -> None:
    bench = Bench()
    bench.worker("w1", model_version="1")
    bench.worker("w3", model_version="3")
    enqueue(bench, "a", "2", "3", "1")
    enqueue(bench, "b", "1", "3")
    assert served(bench) == [("a", "3"), ("b", "1")]


def test_one_that_was_named_waits_for_its_own() -> None:
    bench = Bench()
    bench.worker("w1", model_version="1")
    enqueue(bench, "a", "2")
    bench.advance_reporting(11 * SECOND)
    assert served(bench) == []
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("a", Reason.NO_WORKER)


def test_a_busy_version_is_waited_for() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1", model_version="1")
    bench.worker("w2", model_version="2")
    enqueue(bench, "a", "2", "1")
    enqueue(bench, "b", "2", "1")
    assert served(bench) == [("a", "2")]
    bench.end(bench.out.dispatches[0])
    assert served(bench) == [("a", "2"), ("b", "2")]


def test_what_waits_for_a_version_moves_when_its_last_worker_goes() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1", model_version="1")
    bench.worker("w2", model_version="2")
    enqueue(bench, "a", "2", "1")
    enqueue(bench, "b", "2", "1")
    bench.scheduler.drain_worker("w2")
    bench.scheduler.pump()
    assert served(bench) == [("a", "2"), ("b", "1")]


def test_a_failed_attempt_is_tried_on_another_version_when_its_own_is_gone() -> None:
    bench = Bench()
    bench.worker("w1", model_version="1")
    bench.worker("w2", model_version="2")
    enqueue(bench, "a", "2", "1")
    bench.scheduler.worker_disconnected("w2")
    for _ in range(6):
        bench.advance(SECOND)
        bench.report("w1")
    assert served(bench) == [("a", "2"), ("a", "1")]
    assert bench.out.rejections == []


def test_nobody_is_left_and_it_ends_with_the_version_that_was_drawn() -> None:
    bench = Bench()
    enqueue(bench, "a", "2", "1")
    bench.advance(11 * SECOND)
    [(_, cause)] = bench.out.rejections
    assert cause.reason is Reason.NO_WORKER
    assert "version 2" in cause.message


def test_a_removed_model_whose_last_worker_goes_ends_its_waits_in_their_time() -> None:
    """Where its requests would go now is not to be asked: nobody knows the model any more."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1", model_version="1")
    enqueue(bench, "runs", "1")
    enqueue(bench, "waits", "1", "2")
    bench.rules.models = frozenset()
    bench.scheduler.rules_changed()
    bench.scheduler.drain_worker("w1")
    bench.scheduler.pump()
    bench.end(bench.out.dispatches[0])
    bench.advance_reporting(11 * SECOND)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("waits", Reason.NO_WORKER)


class TestFurtherPool:
    """A worker counts only in a pool that the request may use."""

    def bench(self, canary: str = "2") -> Bench:
        bench = Bench(FixedRules(further=(LONG,), long_context_threshold=100, workers=ONE))
        bench.worker("usual", model_version="1")
        bench.worker("big", model_version=canary, profile="big")
        return bench

    def test_a_version_that_lives_only_in_another_pool_falls_back(self) -> None:
        bench = self.bench()
        enqueue(bench, "short", "2", "1", prompt_tokens=50)
        enqueue(bench, "long", "2", "1", prompt_tokens=150)
        assert served(bench) == [("short", "1"), ("long", "2")]

    def test_its_own_version_in_the_next_pool_comes_before_another_in_the_first(self) -> None:
        bench = self.bench()
        enqueue(bench, "long", "1", "2", prompt_tokens=150)
        assert served(bench) == [("long", "1")]

    def test_what_waits_moves_when_the_version_leaves_the_pools_that_it_may_use(self) -> None:
        bench = self.bench()
        bench.worker("usual2", model_version="2")
        enqueue(bench, "runs", "2", "1")
        enqueue(bench, "waits", "2", "1")
        assert served(bench) == [("runs", "2")]
        bench.scheduler.drain_worker("usual2")
        bench.scheduler.pump()
        assert served(bench) == [("runs", "2"), ("waits", "1")]

    def test_a_worker_of_another_tenant_is_no_worker(self) -> None:
        bench = Bench(FixedRules(workers=ONE))
        bench.worker("usual", model_version="1")
        bench.worker("own", model_version="2", dedicated_tenant_id="vip")
        enqueue(bench, "other", "2", "1", tenant="acme")
        enqueue(bench, "vip", "2", "1", tenant="vip")
        assert served(bench) == [("other", "1"), ("vip", "2")]
