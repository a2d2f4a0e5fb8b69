"""What the scheduler says of the load of its pools."""

from dataclasses import dataclass, replace

import pytest

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.pool_scope import PoolScope, PromptLength, WhenGone
from weir_scheduler.rules.rules import (
    Isolation,
    PoolRules,
    RequestRules,
    TenantRules,
    WorkerRules,
)
from weir_scheduler.scaling.scaling_key import ScalingKey
from weir_scheduler.scaling.signals import ScalingSignals

FEW = WorkerRules(2, 65_536, 512, 4)
KEY = ScalingKey("m", "default")


@dataclass
class TwoPools(FixedRules):
    """A model with further pools; prompts above 100 tokens are long."""

    further: tuple[PoolRules, ...] = ()

    def pool(self, model: str) -> PoolRules:
        return replace(super().pool(model), further=self.further)

    def request(self, model: str, tenant_id: str) -> RequestRules:
        return replace(super().request(model, tenant_id), long_context_threshold=100)


def signals(bench: Bench) -> ScalingSignals:
    return bench.scheduler.scaling_signals(["m"])[KEY]


def ready_bench(rules: FixedRules | None = None, workers: int = 1) -> Bench:
    """A scheduler that knows what it says: its workers have had the time to register."""
    bench = Bench(rules or FixedRules(workers=FEW))
    for number in range(workers):
        bench.worker(f"w{number + 1}")
    bench.advance_reporting(5 * SECOND)
    return bench


def test_places_and_tokens_count_whether_they_run_or_wait() -> None:
    bench = ready_bench(workers=2)
    for number in range(7):
        bench.enqueue(f"r{number}", prompt_tokens=100, max_new_tokens=100)
    seen = signals(bench)
    assert (seen.known, seen.workers, seen.slots, seen.token_slots) == (True, 2, 4, 131_072)
    assert (seen.running, seen.queued) == (4, 3)
    assert (seen.tokens_in_flight, seen.queued_tokens) == (4 * 150, 3 * 150)
    assert seen.predicted_wait_us is not None


def test_the_age_of_a_wait_and_the_waits_that_ended() -> None:
    bench = ready_bench()
    for number in range(3):
        bench.enqueue(f"r{number}")
    for dispatch in bench.out.dispatches:
        bench.start(dispatch)
    bench.advance_reporting(4 * SECOND)
    assert signals(bench).oldest_wait_us == 4 * SECOND
    assert signals(bench).queue_p95_us == 0
    bench.end(bench.out.dispatches[0])
    seen = signals(bench)
    assert (seen.oldest_wait_us, seen.queue_p95_us) == (0, 4 * SECOND)
    bench.advance_reporting(31 * SECOND)
    assert signals(bench).queue_p95_us == 0


def test_offline_requests_count_as_load_and_not_as_waits() -> None:
    bench = ready_bench()
    for number in range(3):
        bench.enqueue(f"r{number}", request_class=RequestClass.BATCH)
    bench.advance_reporting(4 * SECOND)
    assert (signals(bench).queued, signals(bench).oldest_wait_us) == (1, 0)


def test_who_waits_for_its_own_cap_needs_no_workers() -> None:
    rules = FixedRules(workers=FEW, tenants={"capped": TenantRules(1, 1, 0)})
    bench = ready_bench(rules)
    for number in range(4):
        bench.enqueue(f"r{number}", "capped")
    seen = signals(bench)
    assert (seen.running, seen.queued, seen.capped, seen.queued_tokens) == (1, 0, 3, 0)
    bench.start(bench.out.dispatches[0])
    bench.advance_reporting(5 * SECOND)
    assert signals(bench).oldest_wait_us == 0
    bench.end(bench.out.dispatches[0])
    assert signals(bench).queue_p95_us == 0


@pytest.mark.parametrize("how", ["withdrawn", "timed out", "gateway gone"])
def test_what_leaves_without_a_worker_is_counted_no_longer(how: str) -> None:
    bench = ready_bench(FixedRules(workers=FEW, queue_timeout_us=3 * SECOND))
    for number in range(3):
        bench.enqueue(f"r{number}")
    for dispatch in bench.out.dispatches:
        bench.start(dispatch)
    if how == "withdrawn":
        bench.scheduler.withdraw("gw", "r2")
    elif how == "gateway gone":
        bench.scheduler.gateway_lost("gw")
    else:
        bench.advance_reporting(4 * SECOND)
    bench.scheduler.pump()
    seen = signals(bench)
    assert (seen.queued, seen.queued_tokens, seen.oldest_wait_us) == (0, 0, 0)
    # Of these only the one whose patience ended says how long one waits.
    assert seen.queue_p95_us == (3 * SECOND if how == "timed out" else 0)


def test_a_request_that_comes_back_waits_anew_and_once() -> None:
    bench = ready_bench(workers=2)
    bench.enqueue("a")
    bench.scheduler.drain_worker("w2" if bench.out.dispatches[0].worker.worker_id == "w1" else "w1")
    bench.fail(bench.out.dispatches[0])
    assert signals(bench).queued == 1
    bench.advance_reporting(2 * SECOND)
    seen = signals(bench)
    assert (seen.queued, seen.running) == (0, 1)


def test_kv_is_what_requests_hold() -> None:
    bench = ready_bench(workers=2)
    held = {"free_kv_blocks": 0, "cached_kv_blocks": 40, "held_kv_blocks": 60}
    bench.report("w1", load={**held, "pinned_kv_blocks": 20})
    assert signals(bench).kv_use == pytest.approx(0.2)


def test_draining_lost_and_silent_workers_are_not_there() -> None:
    bench = ready_bench(workers=4)
    bench.scheduler.drain_worker("w2")
    bench.scheduler.worker_disconnected("w3")
    bench.report("w4", load={"step_age_us": 31 * SECOND})
    seen = signals(bench)
    assert (seen.known, seen.workers, seen.draining, seen.slots) == (True, 1, 1, 2)


def test_nothing_is_known_at_first_nor_while_all_are_silent() -> None:
    bench = Bench(FixedRules(workers=FEW))
    bench.worker()
    assert not signals(bench).known
    bench.advance_reporting(5 * SECOND)
    assert signals(bench).known
    bench.report(load={"step_age_us": 6 * SECOND})
    assert not signals(bench).known
    bench.report(load={"step_age_us": 0})
    assert signals(bench).known
    bench.scheduler.take_over(2 * SECOND)
    assert not signals(bench).known


def test_a_pool_without_workers_is_told_when_it_is_asked_for() -> None:
    bench = Bench()
    bench.advance(6 * SECOND)
    assert bench.scheduler.scaling_signals() == {}
    seen = signals(bench)
    assert (seen.known, seen.workers, seen.active) == (True, 0, False)
    bench.enqueue("a")
    assert signals(bench).active
    assert ScalingKey("unknown", "default") not in bench.scheduler.scaling_signals(["unknown"])


def test_the_longest_start_is_told() -> None:
    bench = Bench()
    bench.worker("w1", start_us=3 * SECOND)
    bench.worker("w2", start_us=7 * SECOND)
    assert signals(bench).startup_us == 7 * SECOND


def test_each_pool_of_a_model_is_measured_apart_and_an_empty_one_by_what_it_should_run() -> None:
    """Long prompts fall back to the first pool while theirs has no worker; theirs is asked for."""
    long = PoolRules(
        "long",
        Isolation.WEIGHTED,
        "fifo",
        scope=PoolScope(length=PromptLength.LONG, profiles=frozenset({"big"})),
        when_gone=WhenGone.SHARED,
    )
    rules = TwoPools(workers=FEW, further=(long,))
    bench = ready_bench(rules)
    for number in range(4):
        bench.enqueue(f"short{number}", prompt_tokens=10)
    for number in range(3):
        bench.enqueue(f"long{number}", prompt_tokens=500)
    found = bench.scheduler.scaling_signals()
    assert found[KEY].queued == 2
    there = found[ScalingKey("m", "long")]
    assert (there.queued, there.workers, there.known) == (3, 0, True)
    bench.worker("w2", profile="big")
    assert bench.scheduler.scaling_signals()[ScalingKey("m", "long")].workers == 1
