"""What a worker is given: cost, batch, concurrency, KV, windows, caps."""

import pytest

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_core.errors import Reason
from weir_scheduler.queues.entry import LatencySla, RequestClass, estimated_cost
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import Isolation, TenantRules, WorkerRules


@pytest.mark.parametrize(
    ("prompt", "max_new", "alpha", "cost"),
    [(100, 50, 500, 125), (100, 50, 1000, 150), (100, 1, 300, 101), (1, 3, 500, 3)],
)
def test_the_estimated_cost_rounds_up(prompt: int, max_new: int, alpha: int, cost: int) -> None:
    assert estimated_cost(prompt, max_new, alpha) == cost


def last_reason(bench: Bench, request_id: str) -> WaitReason:
    bench.advance(SECOND // 2)
    return next(reason for id_, _, reason in reversed(bench.out.positions) if id_ == request_id)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (WorkerRules(64, 65_536, 512, 2), WaitReason.WORKER_FULL),
        (WorkerRules(2, 65_536, 512, 64), WaitReason.BATCH_FULL),
        (WorkerRules(64, 44, 512, 64), WaitReason.BATCH_FULL),
    ],
)
def test_a_full_worker_lets_requests_wait_and_says_why(
    rules: WorkerRules, reason: WaitReason
) -> None:
    bench = Bench(FixedRules(workers=rules))
    bench.worker()
    for name in "abc":
        bench.enqueue(name)
    assert bench.dispatched_ids() == ["a", "b"]
    assert last_reason(bench, "c") is reason
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["a", "b", "c"]


def test_each_of_several_answers_takes_a_place() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(64, 65_536, 512, 3)))
    bench.worker()
    bench.enqueue("a", choices=2)
    bench.enqueue("b", choices=2)
    assert bench.dispatched_ids() == ["a"]
    assert last_reason(bench, "b") is WaitReason.WORKER_FULL
    bench.end(bench.out.dispatches[0])
    bench.enqueue("c")
    assert bench.dispatched_ids() == ["a", "b", "c"]
    bench.enqueue("d", choices=4)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("d", Reason.REQUEST_TOO_LARGE)
    assert "4 answers" in cause.message


def test_the_workers_own_bound_counts_too() -> None:
    bench = Bench()
    bench.worker(max_concurrent_requests=1)
    bench.enqueue("a")
    bench.enqueue("b")
    assert bench.dispatched_ids() == ["a"]


def test_kv_blocks_on_their_way_count_until_the_report_shows_them() -> None:
    bench = Bench()
    bench.worker(total_kv_blocks=10)
    for name in "abc":
        bench.enqueue(name, prompt_tokens=70, max_new_tokens=10)
    # 70 + 10 tokens need 5 blocks of 16 each: two fit into ten.
    assert bench.dispatched_ids() == ["a", "b"]
    assert last_reason(bench, "c") is WaitReason.KV_FULL
    bench.start(bench.out.dispatches[0], kv_blocks=5)
    assert bench.dispatched_ids() == ["a", "b"]


def test_cached_blocks_are_free_for_admission() -> None:
    bench = Bench()
    bench.worker()
    bench.report(load={"free_kv_blocks": 0, "cached_kv_blocks": 100})
    bench.enqueue("a", prompt_tokens=100)
    assert bench.dispatched_ids() == ["a"]


def test_what_can_never_run_is_refused_at_once_with_the_numbers() -> None:
    bench = Bench()
    bench.worker(max_context_tokens=100_000)
    bench.enqueue("kv", prompt_tokens=1_600, max_new_tokens=1)
    bench.enqueue("ok", prompt_tokens=100, max_new_tokens=1)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("kv", Reason.REQUEST_TOO_LARGE)
    assert "1601 tokens" in cause.message
    assert "1600" in cause.message
    assert cause.retry_after_s is None
    assert bench.dispatched_ids() == ["ok"]


def test_a_cost_over_max_batch_tokens_names_the_knob() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(8, 100, 512, 8)))
    bench.worker()
    bench.enqueue("big", prompt_tokens=90, max_new_tokens=40)
    assert "max_batch_tokens is 100" in bench.out.rejections[0][1].message


def test_what_no_worker_can_ever_hold_never_blocks_the_head() -> None:
    """Too large for every worker that came after it was queued."""
    bench = Bench()
    bench.enqueue("big", prompt_tokens=900, max_new_tokens=50)
    bench.enqueue("small")
    bench.worker(total_kv_blocks=10)
    assert [request_id for request_id, _ in bench.out.rejections] == ["big"]
    assert bench.dispatched_ids() == ["small"]


def test_what_fits_only_a_busy_larger_worker_waits_without_blocking_others() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(1, 65_536, 512, 1)))
    bench.worker("small", total_kv_blocks=10)
    bench.worker("large")
    bench.scheduler.worker_disconnected("large")
    bench.enqueue("big", prompt_tokens=900, max_new_tokens=50)
    bench.enqueue("little")
    assert bench.dispatched_ids() == ["little"]
    bench.worker("large")
    assert bench.dispatched_ids() == ["little", "big"]


def test_nothing_is_skipped_to_let_something_smaller_through() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(64, 100, 512, 64)))
    bench.worker()
    bench.enqueue("a", prompt_tokens=55)
    bench.enqueue("large", prompt_tokens=50)
    bench.enqueue("small", prompt_tokens=1, max_new_tokens=1)
    assert bench.dispatched_ids() == ["a"]


class TestBatchWindow:
    def test_an_idle_worker_gathers_for_the_window(self) -> None:
        bench = Bench(FixedRules(batch_wait_us=5_000))
        bench.worker()
        bench.enqueue("a")
        bench.clock.advance_us(3_000)
        bench.enqueue("b")
        assert bench.dispatched_ids() == []
        wake_us = bench.scheduler.next_wake_us()
        assert wake_us is not None
        assert wake_us - bench.clock.monotonic_us() == 2_000
        bench.clock.advance_us(2_000)
        bench.scheduler.pump()
        assert bench.dispatched_ids() == ["a", "b"]

    def test_a_busy_worker_takes_requests_at_once(self) -> None:
        bench = Bench(FixedRules(batch_wait_us=5_000))
        bench.worker()
        bench.enqueue("a")
        bench.advance(5_000)
        bench.enqueue("b")
        assert bench.dispatched_ids() == ["a", "b"]

    def test_a_full_batch_closes_the_window(self) -> None:
        rules = FixedRules(batch_wait_us=5_000, workers=WorkerRules(3, 65_536, 512, 64))
        bench = Bench(rules)
        bench.worker()
        for name in "abcd":
            bench.enqueue(name)
        assert bench.dispatched_ids() == ["a", "b", "c"]

    def test_cost_closes_it_too_and_the_next_request_opens_another(self) -> None:
        rules = FixedRules(batch_wait_us=5_000, workers=WorkerRules(64, 40, 512, 64))
        bench = Bench(rules)
        bench.worker()
        for name in "abc":
            bench.enqueue(name)
        assert bench.dispatched_ids() == ["a", "b"]

    @pytest.mark.parametrize(
        ("sla", "request_class", "window_us"),
        [
            (LatencySla.LOW, RequestClass.INTERACTIVE, 2_000),
            (LatencySla.NORMAL, RequestClass.INTERACTIVE, 5_000),
            (LatencySla.THROUGHPUT, RequestClass.INTERACTIVE, 10_000),
            (LatencySla.LOW, RequestClass.BATCH, 20_000),
            (LatencySla.NORMAL, RequestClass.BATCH, 50_000),
            (LatencySla.THROUGHPUT, RequestClass.BATCH, 100_000),
        ],
    )
    def test_its_length_follows_class_and_sla(
        self, sla: LatencySla, request_class: RequestClass, window_us: int
    ) -> None:
        bench = Bench(FixedRules(batch_wait_us=5_000))
        bench.worker()
        bench.enqueue("a", latency_sla=sla, request_class=request_class)
        bench.clock.advance_us(window_us - 1)
        bench.scheduler.pump()
        assert bench.dispatched_ids() == []
        bench.clock.advance_us(1)
        bench.scheduler.pump()
        assert bench.dispatched_ids() == ["a"]

    def test_an_urgent_arrival_shortens_it(self) -> None:
        bench = Bench(FixedRules(batch_wait_us=5_000))
        bench.worker()
        bench.enqueue("patient", latency_sla=LatencySla.THROUGHPUT)
        bench.enqueue("hasty", latency_sla=LatencySla.LOW)
        bench.clock.advance_us(2_000)
        bench.scheduler.pump()
        assert bench.dispatched_ids() == ["patient", "hasty"]

    def test_what_waited_for_room_is_not_held_back_again(self) -> None:
        rules = FixedRules(batch_wait_us=5_000, workers=WorkerRules(1, 65_536, 512, 1))
        bench = Bench(rules)
        bench.worker()
        bench.enqueue("a")
        bench.advance(5_000)
        bench.enqueue("b")
        bench.advance(SECOND)
        bench.end(bench.out.dispatches[0])
        assert bench.dispatched_ids() == ["a", "b"]


class TestStaticWorker:
    def test_it_gets_whole_batches_and_never_mixes_classes(self) -> None:
        bench = Bench(FixedRules(workers=WorkerRules(8, 65_536, 512, 8), batch_wait_us=5_000))
        bench.worker(static_batching=True)
        bench.enqueue("a")
        bench.enqueue("b")
        bench.enqueue("offline", request_class=RequestClass.BATCH)
        bench.advance(5_000)
        assert bench.dispatched_ids() == ["a", "b"]
        bench.enqueue("late")
        bench.advance(SECOND)
        for dispatch in list(bench.out.dispatches):
            bench.start(dispatch)
        assert bench.dispatched_ids() == ["a", "b"]
        for dispatch in list(bench.out.dispatches):
            bench.end(dispatch)
        assert bench.dispatched_ids() == ["a", "b", "offline"]
        bench.end(bench.out.dispatches[2])
        assert bench.dispatched_ids() == ["a", "b", "offline", "late"]


class TestTenantCap:
    def rules(self, isolation: Isolation, policy: str = "fifo") -> FixedRules:
        capped = TenantRules(weight=1, max_running_requests=1, max_queued_requests=0)
        return FixedRules(isolation=isolation, policy=policy, tenants={"capped": capped})

    @pytest.mark.parametrize("isolation", [Isolation.SHARED, Isolation.WEIGHTED])
    @pytest.mark.parametrize("policy", ["fifo", "priority", "shortest_remaining"])
    def test_a_capped_tenant_waits_and_holds_up_nobody(
        self, isolation: Isolation, policy: str
    ) -> None:
        bench = Bench(self.rules(isolation, policy))
        bench.worker()
        for number in range(3):
            bench.enqueue(f"c{number}", "capped")
        bench.enqueue("other", "free")
        assert bench.dispatched_ids() == ["c0", "other"]
        assert last_reason(bench, "c1") is WaitReason.TENANT_CAP
        bench.end(bench.out.dispatches[0])
        assert bench.dispatched_ids() == ["c0", "other", "c1"]

    def test_a_raised_cap_takes_effect_at_once(self) -> None:
        bench = Bench(self.rules(Isolation.WEIGHTED))
        bench.worker()
        bench.enqueue("c0", "capped")
        bench.enqueue("c1", "capped")
        bench.rules.tenants["capped"] = TenantRules(1, 2, 0)
        bench.scheduler.rules_changed()
        bench.scheduler.pump()
        assert bench.dispatched_ids() == ["c0", "c1"]

    def test_it_counts_over_all_workers_and_models(self) -> None:
        bench = Bench(self.rules(Isolation.WEIGHTED))
        bench.worker("w1")
        bench.worker("w2", model="n")
        bench.enqueue("c0", "capped", model="m")
        bench.enqueue("c1", "capped", model="n")
        assert bench.dispatched_ids() == ["c0"]


def test_interactive_goes_first_but_batch_is_not_starved() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(1, 65_536, 512, 1)))
    bench.worker()
    for number in range(40):
        bench.enqueue(f"i{number}")
        bench.enqueue(f"b{number}", request_class=RequestClass.BATCH)
    for at in range(40):
        bench.end(bench.out.dispatches[at])
    batch = [request_id for request_id in bench.dispatched_ids() if request_id.startswith("b")]
    assert 3 <= len(batch) <= 6
    assert bench.dispatched_ids()[0] == "i0"


def test_a_dedicated_worker_serves_its_tenant_alone() -> None:
    bench = Bench(FixedRules(workers=WorkerRules(1, 65_536, 512, 1)))
    bench.worker("shared")
    bench.worker("owned", dedicated_tenant_id="vip")
    for number in range(2):
        bench.enqueue(f"v{number}", "vip")
        bench.enqueue(f"o{number}", "other")
    placed = {d.key.request_id: d.worker.worker_id for d in bench.out.dispatches}
    assert placed == {"v0": "owned", "o0": "shared"}


def test_versions_are_kept_apart_and_an_empty_one_matches_any() -> None:
    bench = Bench()
    bench.worker("w1", model_version="v1")
    bench.worker("w2", model_version="v2")
    bench.enqueue("one", version="v1")
    bench.enqueue("two", version="v2")
    bench.enqueue("three", version="v3")
    bench.enqueue("any")
    placed = {d.key.request_id: d.worker.worker_id for d in bench.out.dispatches}
    assert placed["one"] == "w1"
    assert placed["two"] == "w2"
    assert set(placed) == {"one", "two", "any"}


def test_a_change_of_policy_reorders_what_waits() -> None:
    bench = Bench(FixedRules(isolation=Isolation.SHARED, workers=WorkerRules(1, 65_536, 512, 1)))
    bench.worker()
    for name, priority in [("a", 0), ("b", 0), ("c", 9)]:
        bench.enqueue(name, priority=priority)
    bench.rules.policy = "priority"
    bench.scheduler.rules_changed()
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["a", "c"]


def test_changed_bounds_are_sent_to_the_worker() -> None:
    bench = Bench()
    bench.worker()
    bench.rules.workers = WorkerRules(1, 65_536, 256, 1)
    bench.scheduler.rules_changed()
    assert bench.out.parameter_changes == [("w1", WorkerRules(1, 65_536, 256, 1))]


def test_embeddings_go_to_workers_that_make_them() -> None:
    bench = Bench()
    bench.worker("plain")
    bench.enqueue("a", embed=True)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("a", Reason.EMBEDDINGS_NOT_OFFERED)
    bench.worker("able", embeddings=True)
    for name in "bcd":
        bench.enqueue(name, embed=True)
    assert {dispatch.worker.worker_id for dispatch in bench.out.dispatches} == {"able"}
    assert bench.dispatched_ids() == ["b", "c", "d"]
    bench.enqueue("e")
    assert bench.dispatched_ids()[-1] == "e"
