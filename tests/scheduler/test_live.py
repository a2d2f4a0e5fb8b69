"""The service over real gRPC, with scripted gateways and workers."""

import asyncio
import time

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.scheduler.live import (
    TOKEN,
    default_snapshot,
    eventually,
    live_scheduler,
    reason_name,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt
from weir.common.v1.sampling_pb2 import FinishReason
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_core.errors import WeirError
from weir_core.grants import verify_grant

LOST = ErrorReason.ERROR_REASON_WORKER_LOST
ONE_AT_A_TIME = default_snapshot(max_concurrent_requests=1)


async def test_a_request_is_dispatched_with_a_grant_that_its_worker_accepts() -> None:
    async with live_scheduler() as live:
        await live.worker("w1", address="127.0.0.1:4711")
        gateway = await live.gateway()
        await gateway.enqueue("r1", priority=7)
        dispatched = await gateway.dispatched("r1")
        assert dispatched.worker_id == "w1"
        assert dispatched.worker_address == "127.0.0.1:4711"
        assert dispatched.max_new_tokens == 10
        secret = TOKEN.get_secret_value().encode()
        now_us = time.time_ns() // 1_000
        grant = verify_grant(dispatched.grant, secret, worker_id="w1", now_us=now_us)
        assert (grant.attempt, grant.tenant_id, grant.model) == (
            Attempt(request_id="r1", number=1),
            "acme",
            "m",
        )
        assert (grant.priority, grant.max_new_tokens) == (7, 10)
        with pytest.raises(WeirError):
            verify_grant(dispatched.grant, secret, worker_id="w2", now_us=now_us)
        with pytest.raises(WeirError):
            verify_grant(dispatched.grant, secret, worker_id="w1", now_us=now_us + 3_000_000)


async def test_everything_returns_to_rest_after_a_finished_request() -> None:
    async with live_scheduler() as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        dispatched = await gateway.dispatched("r1")
        await worker.run(dispatched, output=3)
        await gateway.send(first_token=wire.FirstToken(attempt=dispatched.attempt))
        await worker.end(dispatched.attempt)
        await gateway.finish(dispatched)
        await eventually(live.at_rest)


async def test_withdraw_before_and_after_dispatch() -> None:
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        await worker.run(await gateway.dispatched("r1"))
        await gateway.enqueue("r2")
        await gateway.enqueue("r3")
        await gateway.send(withdraw=wire.Withdraw(request_id="r2"))
        await gateway.send(withdraw=wire.Withdraw(request_id="r1"))
        attempt = await worker.told_to_abort("r1")
        assert gateway.about("r3") == []
        await worker.end(attempt, FinishReason.FINISH_REASON_ABORT)
        await gateway.dispatched("r3")
        assert gateway.about("r2") == []


async def test_an_attempt_that_fails_goes_to_another_worker() -> None:
    async with live_scheduler() as live:
        workers = {name: await live.worker(name) for name in ("w1", "w2")}
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        first = await gateway.dispatched("r1")
        await gateway.failed(first, LOST)
        requeued = await gateway.news("requeued", "r1")
        assert reason_name(requeued.error_reason) == "WORKER_LOST"
        second = await gateway.dispatched("r1", nth=2)
        assert second.attempt.number == 2
        assert second.worker_id != first.worker_id
        assert (await workers[first.worker_id].told_to_abort("r1")).number == 1


async def test_a_worker_that_dies_before_the_first_token_and_one_that_dies_after() -> None:
    async with live_scheduler(worker_loss_s=3, report_interval_s=0.1) as live:
        worker = await live.worker("w1")
        gateway = await live.gateway()
        await gateway.enqueue("streamed")
        await gateway.enqueue("silent")
        streamed = await gateway.dispatched("streamed")
        await worker.run(streamed, output=1)
        await worker.run(await gateway.dispatched("silent"))
        await gateway.send(first_token=wire.FirstToken(attempt=streamed.attempt))
        await asyncio.sleep(0)
        other = await live.worker("w2")
        await worker.close()
        # Kept alive by hand until both have been told apart.
        async with asyncio.timeout(30):
            while "dispatched" not in gateway.about("silent")[1:]:
                await other.report()
                await asyncio.sleep(0.05)
        lost = await gateway.news("attempt_lost", "streamed")
        assert lost.attempt.number == 1
        assert reason_name(lost.error_reason) == "WORKER_LOST"
        moved = await gateway.dispatched("silent", nth=2)
        assert moved.worker_id == "w2"
        assert gateway.about("streamed") == ["dispatched", "attempt_lost"]


async def test_a_silent_worker_is_lost_although_its_stream_is_open() -> None:
    async with live_scheduler(
        worker_loss_s=3, report_interval_s=0.1, heartbeat_s=60, silence_s=120
    ) as live:
        await live.worker("w1")
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        await gateway.dispatched("r1")
        await gateway.news("requeued", "r1")
        assert (await live.workers())["w1"].state == "lost"


async def test_a_worker_reconnects_with_running_attempts() -> None:
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker("w1")
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        first = await gateway.dispatched("r1")
        await worker.run(first, output=2)
        await worker.close()
        await eventually(lambda: _state(live, "w1", "suspect"))
        address = worker.registration.address
        again = await live.worker("w1", running=worker.running, address=address)
        await eventually(lambda: _state(live, "w1", "ready"))
        await gateway.enqueue("r2")
        await gateway.news("queued", "r2")
        assert gateway.about("r2") == []
        await again.end(first.attempt)
        await gateway.dispatched("r2")
        assert gateway.about("r1") == ["dispatched"]


async def test_draining_a_worker_sends_it_nothing_more() -> None:
    async with live_scheduler() as live:
        worker = await live.worker("w1")
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        await worker.run(await gateway.dispatched("r1"))
        answer = await live.stub.DrainWorker(wire.DrainWorkerRequest(worker_id="w1"))
        assert answer.worker.state == "draining"
        await worker.told("drain")
        await gateway.enqueue("r2")
        queued = await gateway.news("queued", "r2")
        assert queued.reason == wire.QUEUE_REASON_NO_WORKER
        assert worker.aborted == []
        await live.stub.DrainWorker(wire.DrainWorkerRequest(worker_id="w1", cancel=True))
        await gateway.dispatched("r2")


async def test_the_queue_timeout_is_a_rejection_with_retry_after() -> None:
    snapshot = default_snapshot(max_concurrent_requests=1, queue_timeout_ms=200)
    async with live_scheduler(snapshot) as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        await worker.run(await gateway.dispatched("r1"))
        await gateway.enqueue("r2")
        rejected = await gateway.news("rejected", "r2")
        assert reason_name(rejected.error_reason) == "QUEUE_TIMEOUT"
        assert rejected.retry_after.ToMilliseconds() >= 1_000
        labels = {"tenant": "acme", "reason": "QUEUE_TIMEOUT"}
        assert live.sample("weir_scheduler_rejections_total", labels) == 1


async def test_a_tenants_running_cap_holds_it_back_and_nobody_else() -> None:
    async with live_scheduler() as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("c1", "capped")
        await gateway.enqueue("c2", "capped")
        await gateway.enqueue("o1", "other")
        await gateway.dispatched("o1")
        queued = await gateway.news("queued", "c2")
        assert queued.reason == wire.QUEUE_REASON_TENANT_CAP
        assert queued.position == 1
        first = await gateway.dispatched("c1")
        await worker.run(first)
        await worker.end(first.attempt)
        await gateway.dispatched("c2")


async def test_a_change_of_the_directory_takes_effect_without_a_restart() -> None:
    async with live_scheduler() as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("c1", "capped")
        await gateway.enqueue("c2", "capped")
        await gateway.dispatched("c1")
        raised = default_snapshot(version=2, max_batch_size=3)
        raised.tenants[2].policy.max_running_requests = 2
        live.directory.publish(raised)
        await gateway.dispatched("c2")
        assert (await worker.told("parameters")).max_batch_size == 3


async def test_the_end_of_a_gateways_stream_aborts_what_it_had_running() -> None:
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker()
        gateway, other = await live.gateway("gw1"), await live.gateway("gw2")
        await gateway.enqueue("r1")
        await worker.run(await gateway.dispatched("r1"), output=1)
        await gateway.enqueue("r2")
        await other.enqueue("r3")
        await gateway.close()
        attempt = await worker.told_to_abort("r1")
        assert other.about("r3") == []
        await worker.end(attempt, FinishReason.FINISH_REASON_ABORT)
        last = await other.dispatched("r3")
        await worker.run(last)
        await worker.end(last.attempt)
        await other.finish(last)
        await eventually(live.at_rest)


async def test_a_gateway_that_reconnects_replaces_its_old_stream() -> None:
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker()
        old = await live.gateway("gw")
        await old.enqueue("r1")
        await worker.run(await old.dispatched("r1"))
        new = await live.gateway("gw")
        attempt = await worker.told_to_abort("r1")
        await eventually(lambda: old.ended is not None)
        await new.enqueue("r1", attempts=1)
        await worker.end(attempt, FinishReason.FINISH_REASON_ABORT)
        assert (await new.dispatched("r1")).attempt.number == 2


async def test_stopping_ends_every_stream_and_refuses_new_work() -> None:
    async with live_scheduler() as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await live.app.drain()
        await eventually(lambda: worker.ended is not None and gateway.ended is not None)


async def test_a_deadline_ends_the_wait() -> None:
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("run")
        await worker.run(await gateway.dispatched("run"))
        deadline = Timestamp()
        deadline.FromMilliseconds(time.time_ns() // 1_000_000 + 200)
        await gateway.enqueue("r1", deadline=deadline)
        rejected = await gateway.news("rejected", "r1")
        assert reason_name(rejected.error_reason) == "DEADLINE_EXCEEDED"


async def _state(live: object, worker_id: str, state: str) -> bool:
    views = await live.workers()  # type: ignore[attr-defined]
    return bool(views[worker_id].state == state)
