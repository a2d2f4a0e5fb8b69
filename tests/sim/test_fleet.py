"""Simulated workers: batching, memory, caches, losses, drains, splits and scaling."""

import math

import pytest

from tests.sim.loads import COST, prefix_chain, request, setup, workload
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_sim.outcome import Ending
from weir_sim.setup import (
    AutoscaleSpec,
    Batching,
    FleetChange,
    FleetEvent,
    SplitSpec,
    WorkerSpec,
)
from weir_sim.simulation import simulate

SECOND = 1_000_000


def test_one_request_takes_its_prefill_and_its_decodes() -> None:
    outcome = simulate(workload(request("a", prompt_tokens=100, output_tokens=5)), setup())
    (record,) = outcome.records
    first_s = COST.step_s(100, 5_050, 0, 0)
    rest_s = sum(COST.step_s(0, 0, 1, 101 + step) for step in range(4))
    assert record.first_token_s == pytest.approx(first_s, abs=1e-5)
    assert record.end_s == pytest.approx(first_s + rest_s, abs=1e-5)
    assert record.gap_max_s == pytest.approx(COST.step_s(0, 0, 1, 104), abs=1e-5)
    assert outcome.workers[0].steps == 5


def test_chunks_bound_the_time_between_tokens_that_whole_prompts_do_not() -> None:
    talk = request("talk", 0.0, prompt_tokens=10, output_tokens=100)
    paper = request("paper", 0.5, prompt_tokens=4_000, output_tokens=2)
    longest = {
        batching: simulate(
            workload(talk, paper), setup(spec=WorkerSpec(max_step_tokens=512, batching=batching))
        )
        .records[0]
        .gap_max_s
        for batching in Batching
    }
    decode_s = COST.step_s(0, 0, 1, 110)
    assert longest[Batching.CHUNKED] <= 2.8 * decode_s
    whole_s = COST.step_s(4_000, 4_000 * 4_001 // 2, 0, 0)
    assert longest[Batching.PREFILL_FIRST] >= whole_s
    assert longest[Batching.DECODE_FIRST] >= whole_s
    assert longest[Batching.STATIC] <= 1.1 * decode_s


def test_without_a_bound_on_time_a_step_is_full() -> None:
    talk = request("talk", 0.0, prompt_tokens=10, output_tokens=100)
    paper = request("paper", 0.5, prompt_tokens=4_000, output_tokens=2)
    spec = WorkerSpec(max_step_tokens=512, max_step_s=math.inf)
    outcome = simulate(workload(talk, paper), setup(spec=spec))
    assert outcome.records[0].gap_max_s >= COST.step_s(511, 0, 1, 50)


def test_memory_is_taken_from_the_newest_of_the_tenant_with_most_and_work_is_done_again() -> None:
    # 40 blocks of 16; each prompt has 10 and grows to 20.
    spec = WorkerSpec(kv_blocks=40, cache_blocks=0)
    grows = {"prompt_tokens": 150, "output_tokens": 150}
    load = workload(
        request("old", 0.0, tenant_id="a", **grows),
        request("new", 0.2, tenant_id="a", **grows),
        request("other", 0.4, tenant_id="b", **grows),
    )
    outcome = simulate(load, setup(spec=spec))
    records = {record.request.request_id: record for record in outcome.records}
    assert records["new"].preemptions >= 1
    assert records["old"].preemptions == records["other"].preemptions == 0
    assert len(outcome.completed) == 3
    worker = outcome.workers[0]
    assert worker.recomputed_tokens > 0
    assert records["new"].computed_tokens == 150 + 149 + worker.recomputed_tokens
    # Nobody is charged for it.
    assert int(outcome.service.charged[-1].sum()) == 3 * (150 + 2 * 150)


def test_a_prefix_is_computed_once_and_found_by_its_tenant() -> None:
    chain = prefix_chain("t", 4)
    load = workload(
        request("a", 0.0, prompt_tokens=300, prefix_hashes=chain),
        request("b", 5.0, prompt_tokens=300, prefix_hashes=chain),
        request("c", 10.0, prompt_tokens=300, prefix_hashes=prefix_chain("u", 4)),
    )
    for cache_blocks, cached in ((None, [0, 256, 0]), (0, [0, 0, 0])):
        outcome = simulate(load, setup(spec=WorkerSpec(cache_blocks=cache_blocks)))
        assert [record.cached_tokens for record in outcome.records] == cached


def test_a_lost_workers_requests_run_elsewhere_unless_they_streamed() -> None:
    load = workload(
        request("streams", 0.0, output_tokens=200), request("waits", 0.99, prompt_tokens=3_000)
    )
    events = (FleetEvent(1.0, 0, FleetChange.LOSE), FleetEvent(3.0, 0, FleetChange.RETURN))
    outcome = simulate(load, setup(events=events))
    streams, waits = outcome.records
    assert streams.outcome is Ending.LOST
    assert streams.end_s == pytest.approx(1.0)
    assert waits.outcome is Ending.COMPLETED
    assert waits.attempts == 2
    assert waits.dispatched_s is not None
    assert waits.dispatched_s >= 3.0


def test_a_draining_worker_ends_what_it_has_and_gets_nothing_new() -> None:
    load = workload(request("a", 0.0, output_tokens=100), request("b", 1.0), request("c", 9.0))
    events = (FleetEvent(0.5, 0, FleetChange.DRAIN), FleetEvent(8.0, 0, FleetChange.UNDRAIN))
    outcome = simulate(load, setup(2, events=events))
    where = [record.worker for record in outcome.records]
    assert outcome.completed == outcome.records
    first, second, _ = outcome.records
    if first.worker == "w0":
        assert second.worker == "w1", where


def test_a_place_is_given_back_before_the_first_token_and_the_request_comes_again() -> None:
    pool = PoolRules(
        name="p", isolation=Isolation.SHARED, policy="priority", preemption=PreemptionRules()
    )
    batch = [
        request(f"b{i}", 0.0, prompt_tokens=4_000, request_class=RequestClass.BATCH)
        for i in range(2)
    ]
    load = workload(*batch, request("urgent", 0.3, priority=50))
    outcome = simulate(load, setup(pool=pool, spec=WorkerSpec(max_batch_size=2)))
    records = {record.request.request_id: record for record in outcome.records}
    assert len(outcome.completed) == 3
    assert sorted(records[f"b{i}"].attempts for i in range(2)) == [1, 2]
    first = min(records[f"b{i}"].first_token_s or 0.0 for i in range(2))
    assert (records["urgent"].first_token_s or math.inf) < first


def test_a_split_worker_moves_what_it_has_computed() -> None:
    split = SplitSpec(prefill=1, decode=1, transfer_s=0.05, transfer_token_s=0.001)
    load = workload(
        *(request(f"r{i}", 0.1 * i, prompt_tokens=100, output_tokens=20) for i in range(6))
    )
    outcome = simulate(load, setup(spec=WorkerSpec(split=split)))
    assert len(outcome.completed) == 6
    first = outcome.records[0]
    # The first gap holds the transfer of 100 tokens.
    assert first.gap_max_s >= 0.05 + 0.1
    worker = outcome.workers[0]
    assert worker.prefill_tokens == 600
    assert worker.decode_tokens == 6 * 19


def test_a_split_worker_loses_what_is_on_the_way_too() -> None:
    split = SplitSpec(prefill=1, decode=1, transfer_s=1.0)
    events = (FleetEvent(0.5, 0, FleetChange.LOSE), FleetEvent(2.0, 0, FleetChange.RETURN))
    load = workload(request("a", 0.0), request("b", 2.5))
    outcome = simulate(load, setup(spec=WorkerSpec(split=split), events=events))
    assert [record.outcome for record in outcome.records] == [Ending.LOST, Ending.COMPLETED]


def test_the_autoscaler_adds_workers_for_a_queue_and_retires_them_after() -> None:
    spec = WorkerSpec(max_batch_size=4, max_concurrent_requests=4)
    rules = ScalingRules(
        max_workers=4,
        stable_us=5 * SECOND,
        down_window_us=10 * SECOND,
        down_period_us=5 * SECOND,
        startup_us=2 * SECOND,
    )
    busy = [request(f"r{i}", 6.0 + 0.05 * i, output_tokens=40) for i in range(200)]
    load = workload(*busy, request("late", 120.0))
    plan = setup(spec=spec, autoscale=AutoscaleSpec(spec, rules, interval_s=1.0, startup_s=2.0))
    outcome = simulate(load, plan)
    sizes = [size for _, size in outcome.scale_events]
    assert max(sizes) >= 2
    assert sizes[-1] == 1
    assert len(outcome.workers) >= 2
    assert len(outcome.completed) == 201


def test_reports_stop_the_silence_of_idle_workers() -> None:
    load = workload(request("a", 0.0), request("b", 60.0))
    outcome = simulate(load, setup(report_interval_s=0.5))
    assert len(outcome.completed) == 2
    assert outcome.records[1].wait_s == 0.0
