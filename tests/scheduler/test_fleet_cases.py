"""Rows 15, 19, 20, 22 and 26 of the field's faults, as far as workers come and go."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.support import GATEWAY, SECOND, Bench, FixedRules, new_request
from weir_core.errors import Reason
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage

ONE = WorkerRules(1, 65_536, 512, 1)
FEW = WorkerRules(3, 65_536, 512, 3)
REQUESTS = 384


def worker_of(bench: Bench, worker_id: str = "w1") -> Worker:
    return next(w for w in bench.scheduler.workers() if w.info.worker_id == worker_id)


def takes_up(bench: Bench, worker_id: str = "w1") -> tuple[int, int, int]:
    """Attempts, summed cost, and KV blocks that are still to be taken."""
    view = worker_of(bench, worker_id).view(bench.clock.monotonic_us())
    load = worker_of(bench, worker_id).load
    return view.requests, view.cost, load.free_kv_blocks - view.free_kv_blocks


def one_dispatched() -> tuple[Bench, Dispatch]:
    bench = Bench(FixedRules(workers=ONE))
    bench.worker()
    deadline_us = bench.clock.now_us() + 7_200 * SECOND
    bench.enqueue("r", prompt_tokens=100, max_new_tokens=20, deadline_wall_us=deadline_us)
    return bench, bench.out.dispatches[0]


def test_case_15_dynamo_13088_no_request_hangs_while_workers_churn() -> None:
    """384 requests while workers die and come: each ends or is told."""
    dice = random.Random(15)
    bench = Bench(FixedRules(workers=FEW, queue_timeout_us=1_000 * SECOND))
    for number in range(4):
        bench.worker(f"w{number}")
    ended: set[str] = set()
    for number in range(REQUESTS):
        bench.scheduler.enqueue(GATEWAY, new_request(f"r{number}"))
    bench.scheduler.pump()
    seen, born = 0, 4
    for _ in range(400):
        for dispatch in bench.out.dispatches[seen:]:
            seen += 1
            alive = dispatch.worker.worker_id in bench.running
            # Of what was picked some never arrive, some break, most are answered.
            fate = dice.random()
            if not alive or fate < 0.05:
                continue
            bench.start(dispatch, output=1)
            if fate < 0.1:
                bench.fail(dispatch)
                bench.running[dispatch.worker.worker_id].pop(dispatch.key, None)
                continue
            bench.first_token(dispatch)
            bench.end(dispatch)
            ended.add(dispatch.key.request_id)
        if dice.random() < 0.2 and len(bench.running) > 2:
            gone = dice.choice(sorted(bench.running))
            del bench.running[gone], bench.blocks[gone]
            bench.scheduler.worker_disconnected(gone)
            bench.worker(f"w{born}")
            born += 1
        bench.advance_reporting(500_000, step_us=500_000)
        if not bench.scheduler.requests:
            break
    told = {request_id for request_id, _ in bench.out.rejections}
    told |= {key.request_id for key, _ in bench.out.lost}
    assert ended | told == {f"r{number}" for number in range(REQUESTS)}
    assert len(ended) > REQUESTS * 0.8
    assert (bench.scheduler.requests, bench.scheduler.waiting) == (0, 0)


def test_case_19_ray_41726_a_drain_has_no_deadline_of_its_own() -> None:
    """An hour: longer than any minimum that an operator would set."""
    bench, dispatch = one_dispatched()
    bench.start(dispatch, output=1)
    bench.first_token(dispatch)
    bench.scheduler.drain_worker("w1")
    bench.advance_reporting(3_600 * SECOND, step_us=4 * SECOND)
    assert (bench.out.aborts, bench.out.lost, bench.out.rejections) == ([], [], [])
    assert worker_of(bench).draining
    bench.end(dispatch, output=20)
    bench.scheduler.worker_disconnected("w1")
    assert bench.scheduler.workers() == []


def test_case_20_ray_63995_what_was_on_its_way_when_the_drain_began_runs_elsewhere() -> None:
    bench, dispatch = one_dispatched()
    bench.worker("w2")
    bench.scheduler.drain_worker("w1")
    # The worker has stopped accepting by the time the attempt comes.
    end = AttemptEnd(dispatch.key, AttemptUsage())
    bench.report("w1", finished=[end], draining=True)
    bench.fail(dispatch, Reason.DRAINING, worker_fault=False)
    again = bench.out.dispatches[1]
    assert (again.key, again.worker.worker_id) == (AttemptKey("r", 2), "w2")
    assert takes_up(bench) == (0, 0, 0)
    assert worker_of(bench).breaker.open_until_us is None


def test_case_22_aibrix_2224_who_leaves_after_the_last_token_is_no_failure() -> None:
    bench, dispatch = one_dispatched()
    bench.start(dispatch, output=20)
    bench.first_token(dispatch)
    usage = AttemptUsage(100, 0, 20)
    bench.scheduler.finish(GATEWAY, dispatch.key, usage)
    # The connection closes now, and only now.
    bench.scheduler.withdraw(GATEWAY, "r")
    bench.scheduler.gateway_lost(GATEWAY)
    bench.scheduler.pump()
    assert (bench.out.aborts, bench.out.rejections, bench.out.lost) == ([], [], [])
    assert (bench.scheduler.attempts, takes_up(bench)) == (0, (0, 0, 0))


@pytest.mark.parametrize("moment", ["on its way", "computing its prompt", "worker away"])
def test_case_26_dynamo_7489_a_cancel_frees_the_place_when_the_worker_says_so(moment: str) -> None:
    bench, dispatch = one_dispatched()
    full = takes_up(bench)
    if moment != "on its way":
        bench.start(dispatch, kv_blocks=3)
    if moment == "worker away":
        bench.scheduler.worker_disconnected("w1")
    bench.scheduler.withdraw(GATEWAY, "r")
    bench.scheduler.pump()
    # Deferred: its blocks are not given to others while they may be written to.
    bench.enqueue("next")
    assert bench.dispatched_ids() == ["r"]
    assert takes_up(bench)[:2] == full[:2]
    if moment == "worker away":
        bench.scheduler.register_worker(worker_of(bench).info, list(bench.running["w1"]))
    assert set(bench.out.aborts) == {("w1", dispatch.key)}
    bench.running["w1"].clear()
    bench.report(finished=[AttemptEnd(dispatch.key, AttemptUsage(48, 0, 0))])
    assert bench.dispatched_ids() == ["r", "next"]
    bench.end(bench.out.dispatches[1])
    assert (bench.scheduler.attempts, takes_up(bench)) == (0, (0, 0, 0))


def test_case_26_a_cancel_of_what_is_lost_with_its_worker_leaks_nothing() -> None:
    bench, dispatch = one_dispatched()
    bench.start(dispatch, kv_blocks=3)
    bench.scheduler.withdraw(GATEWAY, "r")
    bench.scheduler.worker_disconnected("w1")
    bench.advance(6 * SECOND)
    assert (bench.scheduler.attempts, bench.scheduler.requests) == (0, 0)
    # It comes back with the attempt, and is told once more to end it.
    bench.out.aborts.clear()
    bench.scheduler.register_worker(worker_of(bench).info, [dispatch.key])
    assert bench.out.aborts == [("w1", dispatch.key)]
    bench.running["w1"].clear()
    bench.report(finished=[AttemptEnd(dispatch.key, AttemptUsage(48, 0, 0))])
    assert takes_up(bench) == (0, 0, 0)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_case_16_drains_in_any_order_abort_nothing_and_count_everything(
    data: st.DataObject,
) -> None:
    """Workers are drained, called back, leave and come; what has begun there always ends there."""
    bench = Bench(FixedRules(workers=FEW, queue_timeout_us=10_000 * SECOND))
    born, sent, seen = 0, 0, 0
    running: list[Dispatch] = []
    for step in data.draw(st.lists(st.sampled_from("wrdueeat"), min_size=10, max_size=80)):
        ids = sorted(bench.running)
        if step == "w" and born < 6:
            bench.worker(f"w{born}")
            born += 1
        elif step == "r":
            bench.enqueue(f"r{sent}")
            sent += 1
        elif step in "du" and ids:
            chosen = data.draw(st.sampled_from(ids))
            bench.scheduler.drain_worker(chosen, cancel=step == "u")
            bench.scheduler.pump()
        elif step == "e" and running:
            bench.end(running.pop(data.draw(st.integers(0, len(running) - 1))))
        elif step == "a":
            for worker_id in ids:
                worker = worker_of(bench, worker_id)
                if worker.draining and not bench.running[worker_id] and not worker.requests:
                    bench.scheduler.worker_disconnected(worker_id)
                    del bench.running[worker_id]
        else:
            bench.advance_reporting(SECOND)
        for dispatch in bench.out.dispatches[seen:]:
            assert not worker_of(bench, dispatch.worker.worker_id).draining
            bench.start(dispatch, output=1)
            bench.first_token(dispatch)
            running.append(dispatch)
        seen = len(bench.out.dispatches)
        assert (bench.out.aborts, bench.out.lost) == ([], [])
        assert bench.scheduler.attempts == len(running)
    for dispatch in running:
        bench.end(dispatch)
    ends = [d.key.request_id for d in bench.out.dispatches]
    assert len(set(ends)) == len(ends)
