"""The stream to the scheduler: registration, reports, commands, loss and return."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.worker.server.support import (
    RunningWorker,
    ScriptedScheduler,
    eventually,
    new_attempt,
    open_gateway,
    running_worker,
    scripted_scheduler,
    spec,
)
from weir.common.v1.lifecycle_pb2 import Attempt
from weir.common.v1.sampling_pb2 import FinishReason
from weir.scheduler.v1.worker_report_pb2 import (
    AbortAttempts,
    Batching,
    DrainCommand,
    WorkerParameters,
)
from weir_core.clock import ManualClock
from weir_worker.ended_attempts import EndedAttempts


@asynccontextmanager
async def scheduled_worker(
    report_interval_s: float = 0.2, parameters: WorkerParameters | None = None, **settings: Any
) -> AsyncIterator[tuple[ScriptedScheduler, RunningWorker]]:
    scheduler = scripted_scheduler(report_interval_s)
    scheduler.parameters = parameters
    await scheduler.start()
    try:
        async with running_worker(scheduler_address=scheduler.address, **settings) as worker:
            await eventually(lambda: scheduler.reports)
            yield scheduler, worker
    finally:
        await scheduler.stop()


async def test_a_worker_registers_with_what_it_is() -> None:
    async with scheduled_worker(model_version="3", dedicated_tenant_id="acme") as (
        scheduler,
        worker,
    ):
        (registration,) = scheduler.registrations
        assert registration.worker_id == worker.app.worker_id
        assert registration.address == worker.app.address
        assert (registration.model, registration.model_version) == ("test-model", "3")
        assert registration.max_context_tokens == 2048
        assert registration.total_kv_blocks == 256
        assert registration.block_size == 16
        assert registration.max_concurrent_requests == 256
        assert registration.batching == Batching.BATCHING_CONTINUOUS
        assert len(registration.tokenizer_fingerprint) == 32
        assert registration.dedicated_tenant_id == "acme"
        assert registration.profile.endswith("none-null-tp1")
        assert registration.gpu_id
        assert worker.metric("weir_worker_registered") == 1
        assert not registration.running


async def test_reports_come_at_once_when_something_starts_or_ends() -> None:
    async with (
        scheduled_worker(report_interval_s=30) as (scheduler, worker),
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(max_new_tokens=1900))
        await eventually(lambda: any(report.running for report in scheduler.reports), 2)
        (progress,) = scheduler.reports[-1].running
        assert (progress.attempt.request_id, progress.attempt.number) == key
        await gateway.abort(key)
        await gateway.ended_answer(key)
        await eventually(lambda: scheduler.ended, 2)
        (end,) = scheduler.ended
        assert end.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert end.usage == gateway.answer(key).terminal.usage
        assert not scheduler.reports[-1].running
        assert len(scheduler.reports) == 3


async def test_reports_come_every_interval_with_progress_and_load() -> None:
    async with (
        scheduled_worker(report_interval_s=0.1) as (scheduler, worker),
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(max_new_tokens=1900))
        await eventually(lambda: scheduler.reports[-1].running)
        await eventually(lambda: scheduler.reports[-1].running[0].completion_tokens > 100)
        await eventually(lambda: scheduler.reports[-1].running[0].kv_blocks > 1)
        assert scheduler.reports[-1].running[0].computed_prompt_tokens == 20
        assert scheduler.reports[-1].load.held_kv_blocks > 1
        assert scheduler.reports[-1].load.running_requests == 1
        await gateway.abort(key)
        await eventually(lambda: scheduler.reports[-1].load.held_kv_blocks == 0)
        load = scheduler.reports[-1].load
        assert load.free_kv_blocks + load.cached_kv_blocks == 256
        assert load.step_age.ToMilliseconds() < 5000
        assert load.device_memory_total_bytes > load.device_memory_used_bytes > 0


async def test_starts_and_ends_share_reports() -> None:
    async with (
        scheduled_worker(report_interval_s=10, null_step_us=0) as (scheduler, worker),
        open_gateway(worker) as gateway,
    ):
        before = len(scheduler.reports)
        keys = await gateway.start(*(spec(max_new_tokens=2) for _ in range(40)))
        for key in keys:
            await gateway.ended_answer(key)
        await eventually(lambda: len(scheduler.ended) == 40)
        assert len(scheduler.reports) - before <= 8


async def test_the_scheduler_aborts_attempts_known_or_not() -> None:
    async with scheduled_worker() as (scheduler, worker), open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=1900))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        unknown = new_attempt()
        known = Attempt(request_id=key[0], number=key[1])
        scheduler.send(abort=AbortAttempts(attempts=[known, unknown], reason="its gateway is gone"))
        record = (await gateway.ended_answer(key)).terminal
        assert record.error_message == "its gateway is gone"
        await eventually(lambda: len(scheduler.ended) == 2)
        ends = {end.attempt.request_id: end for end in scheduler.ended}
        assert ends[key[0]].usage == record.usage
        # Nothing is known of the other one; it will not run either.
        assert not ends[unknown.request_id].HasField("usage")
        (late,) = await gateway.start(spec(unknown))
        refused = (await gateway.ended_answer(late)).terminal
        assert refused.finish_reason == FinishReason.FINISH_REASON_REJECTED


async def test_a_refused_start_is_an_end_for_the_scheduler() -> None:
    async with scheduled_worker() as (scheduler, worker), open_gateway(worker) as gateway:
        (bad,) = await gateway.start(spec(max_new_tokens=0))
        await eventually(lambda: scheduler.ended)
        (end,) = scheduler.ended
        assert (end.attempt.request_id, end.attempt.number) == bad
        assert end.finish_reason == FinishReason.FINISH_REASON_REJECTED


async def test_parameters_are_obeyed_within_the_bounds_of_the_worker() -> None:
    first = WorkerParameters(max_concurrent_requests=1, max_step_tokens=40)
    async with scheduled_worker(parameters=first, max_step_tokens=128) as (scheduler, worker):
        async with open_gateway(worker) as gateway:
            kept, refused = await gateway.start(*(spec(max_new_tokens=100) for _ in range(2)))
            assert "is 1" in (await gateway.ended_answer(refused)).terminal.error_message
            await gateway.ended_answer(kept)
            assert worker.worker.engine.ready.max_step_tokens == 40
        scheduler.send(
            parameters=WorkerParameters(max_concurrent_requests=10_000, max_step_tokens=10_000)
        )
        await eventually(lambda: worker.worker.engine.ready.max_step_tokens == 128)
        assert worker.worker.attempts.max_running == 256


async def test_a_drain_command_lets_the_running_end_and_then_the_worker_leaves() -> None:
    async with scheduled_worker() as (scheduler, worker), open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=300))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        scheduler.send(drain=DrainCommand())
        await eventually(lambda: scheduler.reports[-1].draining)
        (refused,) = await gateway.start(spec())
        assert "draining" in (await gateway.ended_answer(refused)).terminal.error_message
        assert not worker.ends
        assert len((await gateway.ended_answer(key)).token_ids) == 300
        await eventually(lambda: worker.ends)
        assert worker.ends == [("drained: the scheduler asked for it", False)]


async def test_a_drain_can_be_cancelled() -> None:
    async with scheduled_worker() as (scheduler, worker), open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=300))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        scheduler.send(drain=DrainCommand())
        await eventually(lambda: scheduler.reports[-1].draining)
        scheduler.send(drain=DrainCommand(cancel=True))
        await eventually(lambda: not scheduler.reports[-1].draining)
        (more,) = await gateway.start(spec())
        assert len((await gateway.ended_answer(more)).token_ids) == 8
        await gateway.ended_answer(key)
        assert not worker.ends


async def test_streams_go_on_while_the_scheduler_is_away_and_it_hears_all_afterwards() -> None:
    async with scheduled_worker() as (scheduler, worker), open_gateway(worker) as gateway:
        long, short = await gateway.start(spec(max_new_tokens=1900), spec(max_new_tokens=150))
        await eventually(lambda: len(scheduler.reports[-1].running) == 2)
        port = int(scheduler.address.rpartition(":")[2])
        await scheduler.stop()
        assert worker.app.link is not None
        await eventually(lambda: worker.app.link and not worker.app.link.registered)
        assert len((await gateway.ended_answer(short)).token_ids) == 150
        scheduler.reports.clear()
        await scheduler.start(port)
        await eventually(lambda: len(scheduler.registrations) == 2, 10)
        running = [(a.request_id, a.number) for a in scheduler.registrations[-1].running]
        assert running == [long]
        await eventually(lambda: scheduler.ended)
        assert [end.attempt.request_id for end in scheduler.ended] == [short[0]]
        assert len((await gateway.ended_answer(long, 10)).token_ids) == 1900


async def test_a_worker_starts_without_its_scheduler() -> None:
    async with (
        running_worker(scheduler_address="127.0.0.1:1") as worker,
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec())
        assert len((await gateway.ended_answer(key)).token_ids) == 8


def test_ends_of_late_are_told_again_after_a_loss() -> None:
    clock = ManualClock()
    ended = EndedAttempts(clock, keep_s=30)
    for number in (1, 2):
        ended.add_unknown(("r", number))
    assert [end.attempt.number for end in ended.take()] == [1, 2]
    assert ended.take() == []
    clock.advance_us(20_000_000)
    ended.add_unknown(("r", 3))
    assert [end.attempt.number for end in ended.take()] == [3]
    ended.add_unknown(("r", 4))
    clock.advance_us(15_000_000)
    ended.tell_again()
    assert [end.attempt.number for end in ended.take()] == [3, 4]


async def test_the_last_report_before_the_end_says_draining() -> None:
    scheduler = await scripted_scheduler().start()
    async with running_worker(scheduler_address=scheduler.address) as worker:
        await eventually(lambda: scheduler.reports)
        await worker.app.stop()
    assert scheduler.reports[-1].draining
    assert scheduler.connected == 0
    await scheduler.stop()


async def test_a_report_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reports the scheduler would give the worker up."""
    async with scheduled_worker(report_interval_s=0.02) as (scheduler, _):
        sound, failures = EndedAttempts.take, [RuntimeError("unforeseen")]

        def take(self: EndedAttempts) -> Any:
            if failures:
                raise failures.pop()
            return sound(self)

        monkeypatch.setattr(EndedAttempts, "take", take)
        await eventually(lambda: not failures)
        seen = len(scheduler.reports)
        await eventually(lambda: len(scheduler.reports) > seen)
