"""Faults that users of other schedulers and routers met; each test names the public report."""

import random

import pytest

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules
from weir_core.errors import Reason
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.rules import Isolation, WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.prefix_index import PrefixIndex
from weir_scheduler.workers.worker import WorkerState
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptUsage,
    WorkerLoad,
    WorkerReport,
)

ONE = WorkerRules(1, 65_536, 512, 1)


def state_of(bench: Bench, worker_id: str) -> WorkerState:
    [worker] = [w for w in bench.scheduler.workers() if w.info.worker_id == worker_id]
    return worker.state(bench.clock.monotonic_us())


def placed(bench: Bench) -> dict[str, int]:
    """Dispatches by worker."""
    counts: dict[str, int] = {}
    for dispatch in bench.out.dispatches:
        counts[dispatch.worker.worker_id] = counts.get(dispatch.worker.worker_id, 0) + 1
    return counts


def test_case_1_gaie_1861_a_steady_stream_of_interactive_work_does_not_starve_batch() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("first")
    bench.enqueue("offline", request_class=RequestClass.BATCH)
    for number in range(30):
        bench.enqueue(f"i{number}")
        bench.end(bench.out.dispatches[-1])
    assert "offline" in bench.dispatched_ids()


def test_case_2_gaie_2103_beyond_the_limit_the_queue_refuses() -> None:
    bench = Bench(FixedRules(workers=ONE, max_queued_requests=10))
    bench.worker()
    for number in range(30):
        bench.enqueue(f"r{number}", f"t{number % 3}")
    assert bench.scheduler.waiting == 10
    assert [cause.reason for _, cause in bench.out.rejections] == [Reason.QUEUE_FULL] * 19


def test_case_3_gaie_1497_an_idle_worker_that_stopped_reporting_gets_nothing() -> None:
    bench = Bench()
    bench.worker("stale")
    bench.worker("fresh")
    for _ in range(6):
        bench.advance(SECOND)
        bench.report("fresh")
    for number in range(10):
        bench.enqueue(f"r{number}")
    assert placed(bench) == {"fresh": 10}


def test_case_3_nor_does_one_that_only_sends_heartbeats() -> None:
    """It swallows what it is sent: without increments it would look idle every 2 s, and win."""
    bench = Bench()
    bench.worker("stale")
    bench.worker("fresh")
    for number in range(80):
        bench.advance(SECOND // 10)
        bench.enqueue(f"r{number}", prompt_tokens=100)
        bench.scheduler.worker_heard("stale")
        if bench.out.dispatches[-1].worker.worker_id == "fresh":
            bench.end(bench.out.dispatches[-1])
        bench.report("fresh")
    assert state_of(bench, "stale") is WorkerState.LOST
    assert placed(bench)["stale"] <= 21, "what came before the arrival deadline of the first"
    assert bench.out.rejections == []
    moved = {d.key.request_id for d in bench.out.dispatches if d.key.number > 1}
    assert len(moved) == placed(bench)["stale"], "all that it had was tried elsewhere"


def test_case_4_llm_d_router_1182_a_tenant_of_huge_prompts_does_not_monopolise() -> None:
    """Turns by requests would give it 100 times the tokens; turns go by tokens."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    for number in range(200):
        bench.enqueue(f"s{number}", "small", prompt_tokens=10, max_new_tokens=1)
    for number in range(20):
        bench.enqueue(f"b{number}", "big", prompt_tokens=900, max_new_tokens=1)
    tokens = {"small": 0, "big": 0}
    for at in range(120):
        dispatch = bench.out.dispatches[at]
        size = 10 if dispatch.tenant_id == "small" else 900
        tokens[dispatch.tenant_id] += size
        bench.running["w1"].clear()
        bench.report(finished=[AttemptEnd(dispatch.key, AttemptUsage(size, 0, 0))])
    assert abs(tokens["small"] - tokens["big"]) <= 2 * 900


def test_case_4_turn_based_order_would_have_failed_that_test() -> None:
    """Negative control: one shared queue in order of arrival, same load, interleaved."""
    bench = Bench(FixedRules(workers=ONE, isolation=Isolation.SHARED))
    bench.worker()
    for number in range(60):
        bench.enqueue(f"s{number}", "small", prompt_tokens=10, max_new_tokens=1)
        bench.enqueue(f"b{number}", "big", prompt_tokens=900, max_new_tokens=1)
    tokens = {"small": 0, "big": 0}
    for at in range(100):
        dispatch = bench.out.dispatches[at]
        size = 10 if dispatch.tenant_id == "small" else 900
        tokens[dispatch.tenant_id] += size
        bench.report(finished=[AttemptEnd(dispatch.key, AttemptUsage(size, 0, 0))])
    assert tokens["big"] - tokens["small"] > 20 * 900


def test_case_5_vllm_41951_a_requeued_request_goes_before_its_newer_peers() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.enqueue("old")
    for number in range(5):
        bench.clock.advance_us(1_000)
        bench.enqueue(f"new{number}")
    bench.fail(bench.out.dispatches[0])
    bench.worker("w2")
    assert bench.dispatched_ids() == ["old", "old"]


def test_case_6_litellm_6867_the_queue_holds_back_by_capacity_not_by_health() -> None:
    rules = FixedRules(workers=ONE, policy="priority", isolation=Isolation.SHARED)
    bench = Bench(rules)
    bench.worker()
    bench.enqueue("running")
    bench.enqueue("low", priority=0)
    bench.enqueue("high", priority=50)
    assert bench.scheduler.waiting == 2
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["running", "high"]


def test_case_8_sglang_14532_misses_go_to_the_least_loaded_not_to_one_worker() -> None:
    """Unique heavy prompts fill one worker's tree; what misses must not follow them."""
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    for number in range(40):
        bench.enqueue(f"r{number}", prompt_tokens=random.Random(number).randint(20, 30))
    counts = placed(bench)
    assert max(counts.values()) - min(counts.values()) <= 3


@pytest.mark.parametrize("workers", [2, 4])
def test_case_9_sglang_15473_every_dispatch_counts_as_load(workers: int) -> None:
    bench = Bench()
    for number in range(workers):
        bench.worker(f"w{number}")
    for number in range(8 * workers):
        bench.enqueue(f"r{number}")
    assert set(placed(bench).values()) == {8}


def test_case_10_vllm_router_198_counters_persist_and_ties_are_drawn_by_lot() -> None:
    """One at a time on idle workers: no worker is pinned by its index."""
    bench = Bench()
    for number in range(4):
        bench.worker(f"w{number}")
    for number in range(60):
        bench.enqueue(f"r{number}")
        bench.end(bench.out.dispatches[-1])
    counts = placed(bench)
    assert len(counts) == 4
    assert max(counts.values()) < 30


def test_case_11_vllm_router_178_no_herd_between_two_reports() -> None:
    """All eight arrive while both reports say idle."""
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    for number in range(8):
        bench.enqueue(f"r{number}")
    assert placed(bench) == {"w1": 4, "w2": 4}
    bench.report("w1")  # A report made before the attempts arrived changes nothing.
    assert bench.requests_of("w1") == 4


def test_case_12_sglang_25811_oversized_requests_open_no_breaker() -> None:
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    for number in range(20):
        bench.enqueue(f"big{number}", prompt_tokens=5_000)
    for number in range(6):
        bench.enqueue(f"odd{number}")
        bench.fail(bench.out.dispatches[-1], Reason.INVALID_FIELD, worker_fault=False)
        bench.scheduler.withdraw(GATEWAY, f"odd{number}")
    assert [state_of(bench, w) for w in ("w1", "w2")] == [WorkerState.READY] * 2
    bench.enqueue("good")
    assert bench.dispatched_ids()[-1] == "good"


def test_case_13_infera_82_failures_are_remembered_across_requests() -> None:
    bench = Bench()
    bench.worker("bad")
    bench.worker("good")
    number = 0
    while placed(bench).get("bad", 0) < 3:
        number += 1
        bench.enqueue(f"r{number}")
        dispatch = bench.out.dispatches[-1]
        if dispatch.worker.worker_id == "bad":
            bench.fail(dispatch)
        bench.scheduler.withdraw(GATEWAY, f"r{number}")
        for worker_id in ("bad", "good"):
            bench.report(worker_id)
    assert state_of(bench, "bad") is WorkerState.SUSPECT
    before = placed(bench)["bad"]
    for later in range(20):
        bench.enqueue(f"later{later}")
    assert placed(bench)["bad"] == before


def test_case_14_production_stack_15_a_session_on_a_dead_worker_moves_on() -> None:
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    bench.enqueue("turn1", session_id="s")
    home = bench.out.dispatches[0].worker.worker_id
    bench.start(bench.out.dispatches[0])
    bench.end(bench.out.dispatches[0])
    for number in range(5):
        bench.enqueue(f"turn{number + 2}", session_id="s")
        assert bench.out.dispatches[-1].worker.worker_id == home
        bench.end(bench.out.dispatches[-1])
    bench.scheduler.worker_disconnected(home)
    bench.enqueue("after", session_id="s")
    assert bench.out.dispatches[-1].worker.worker_id != home
    assert bench.out.rejections == []


def test_case_15_dynamo_13088_a_worker_that_leaves_between_pick_and_first_token() -> None:
    bench = Bench()
    bench.worker("w1")
    bench.enqueue("r")
    bench.scheduler.worker_disconnected("w1")
    bench.worker("w2")
    for _ in range(6):
        bench.advance(SECOND)
        bench.report("w2")
    assert [(d.key.number, d.worker.worker_id) for d in bench.out.dispatches] == [
        (1, "w1"),
        (2, "w2"),
    ]


def test_case_15_and_one_that_never_received_it_is_bounded_too() -> None:
    bench = Bench()
    bench.worker("w1")
    bench.worker("w2")
    bench.enqueue("r")
    bench.advance_reporting(7 * SECOND)
    assert [d.key.number for d in bench.out.dispatches] == [1, 2, 3]
    assert [cause.reason for _, cause in bench.out.rejections] == [Reason.WORKER_LOST]


def test_case_16_dynamo_13559_draining_aborts_nothing_however_long_it_takes() -> None:
    bench = Bench()
    bench.worker("w1")
    bench.enqueue("long")
    bench.start(bench.out.dispatches[0], output=1)
    bench.first_token(bench.out.dispatches[0])
    bench.scheduler.drain_worker("w1")
    bench.advance_reporting(120 * SECOND)
    assert (bench.out.aborts, bench.out.lost) == ([], [])
    bench.end(bench.out.dispatches[0])
    assert bench.scheduler.attempts == 0


def test_case_17_dynamo_10774_what_is_known_of_prefixes_stays_bounded() -> None:
    index = PrefixIndex(capacity=100)
    for number in range(100_000):
        index.add([number.to_bytes(32, "big")])
    assert len(index) == 100
    assert index.leading([(99_999).to_bytes(32, "big")]) == 1


def test_case_18_dynamo_11647_a_late_free_of_an_old_attempt_releases_no_new_booking() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.worker("w2")
    bench.enqueue("r")
    first = bench.out.dispatches[0]
    bench.start(first)
    bench.fail(first)
    second = bench.out.dispatches[1]
    end = AttemptEnd(first.key, AttemptUsage(10, 0, 0))
    bench.running[first.worker.worker_id].clear()
    bench.report(first.worker.worker_id, finished=[end])
    bench.report(second.worker.worker_id, finished=[end])
    assert bench.requests_of(second.worker.worker_id) == 1
    bench.scheduler.finish(GATEWAY, first.key, AttemptUsage())
    assert bench.requests_of(second.worker.worker_id) == 1


def test_case_20_ray_63995_a_worker_that_shuts_down_is_never_chosen() -> None:
    bench = Bench()
    bench.worker("going")
    bench.worker("staying")
    bench.report("going", draining=True)
    for number in range(20):
        bench.enqueue(f"r{number}")
    assert placed(bench) == {"staying": 20}
    bench.scheduler.worker_disconnected("going")
    assert [w.info.worker_id for w in bench.scheduler.workers()] == ["staying"]


def test_case_22_aibrix_2224_the_place_is_free_with_the_last_token_not_with_the_socket() -> None:
    """The gateway has the terminal record: nothing waits for a report or a connection."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("a")
    bench.enqueue("b")
    bench.start(bench.out.dispatches[0], output=3)
    bench.scheduler.finish(GATEWAY, bench.out.dispatches[0].key, AttemptUsage(10, 0, 3))
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["a", "b"]
    assert state_of(bench, "w1") is WorkerState.READY


def test_case_24_smg_2220_shed_is_final_tells_when_to_retry_and_is_not_retried_here() -> None:
    bench = Bench(FixedRules(workers=ONE, max_queued_requests=1))
    bench.worker()
    for name in ("run", "waits", "shed"):
        bench.enqueue(name)
    [(request_id, cause)] = bench.out.rejections
    assert (request_id, cause.reason) == ("shed", Reason.QUEUE_FULL)
    assert cause.retry_after_s is not None
    bench.end(bench.out.dispatches[0])
    bench.end(bench.out.dispatches[1])
    assert bench.dispatched_ids() == ["run", "waits"]


def test_case_24_capacity_is_checked_again_at_dispatch() -> None:
    """It fitted when it was queued; the bounds have shrunk since."""
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    bench.enqueue("run")
    bench.enqueue("big", prompt_tokens=500)
    bench.rules.workers = WorkerRules(1, 100, 512, 1)
    bench.scheduler.rules_changed()
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["run"]
    assert bench.out.rejections[0][1].reason is Reason.REQUEST_TOO_LARGE


def test_case_25_kthena_924_a_session_whose_worker_is_full_goes_elsewhere() -> None:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker("w1")
    bench.worker("w2")
    bench.enqueue("turn1", session_id="s")
    bench.enqueue("turn2", session_id="s")
    assert len(placed(bench)) == 2


def test_a_worker_that_comes_back_tells_its_prefixes_anew() -> None:
    """What it removed while the connection was down, the scheduler was not told."""
    bench = Bench()
    chain = tuple(number.to_bytes(32, "big") for number in range(4))
    for number in range(2):
        bench.worker(f"w{number}")
    bench.scheduler.worker_report(
        "w0", WorkerReport(WorkerLoad(free_kv_blocks=100), prefix_blocks_added=chain)
    )
    bench.worker("w0")
    bench.scheduler.worker_report(
        "w1", WorkerReport(WorkerLoad(free_kv_blocks=100), prefix_blocks_added=chain)
    )
    for number in range(6):
        bench.enqueue(f"r{number}", prompt_tokens=300, max_new_tokens=1, prefix_hashes=chain)
        bench.end(bench.out.dispatches[-1])
    assert placed(bench) == {"w1": 6}


def test_case_23_aibrix_842_a_hot_prefix_does_not_make_a_hot_worker() -> None:
    """Every prompt begins alike and one worker has it cached: the load still spreads."""
    bench = Bench()
    chain = tuple(number.to_bytes(32, "big") for number in range(8))
    for number in range(4):
        bench.worker(f"w{number}")
    bench.scheduler.worker_report(
        "w0", WorkerReport(WorkerLoad(free_kv_blocks=100), prefix_blocks_added=chain)
    )
    for number in range(16):
        bench.enqueue(f"r{number}", prompt_tokens=600, max_new_tokens=100, prefix_hashes=chain)
        bench.report("w1")
    counts = placed(bench)
    assert counts["w0"] >= max(counts.values())
    assert counts["w0"] <= 1.5 * 16 / 4
    assert AttemptKey("r0", 1) in {d.key for d in bench.out.dispatches}
