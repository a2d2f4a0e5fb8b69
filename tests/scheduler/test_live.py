"""The service over real gRPC, with scripted gateways and workers."""

import asyncio
import secrets
import time
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

from tests.scheduler.live import (
    TOKEN,
    default_snapshot,
    enqueue_message,
    eventually,
    live_scheduler,
    reason_name,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, TraceContext
from weir.common.v1.sampling_pb2 import FinishReason
from weir.directory.v1.directory_pb2 import Snapshot
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir.scheduler.v1.worker_report_pb2 import WorkerRegistration, WorkerReport
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
    async with live_scheduler(worker_loss_s=0.5, report_interval_s=0.1) as live:
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
        async with asyncio.timeout(10):
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
        worker_loss_s=0.4, report_interval_s=0.1, heartbeat_s=60, silence_s=120
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


async def test_bad_requests_are_refused_by_field_and_hurt_nobody() -> None:
    async with live_scheduler() as live:
        await live.worker()
        gateway = await live.gateway()
        bad = [
            (enqueue_message("r0", prompt_tokens=0), "prompt_tokens"),
            (enqueue_message("r1", max_new_tokens=-5), "max_new_tokens"),
            (enqueue_message("r2", priority=101), "priority"),
            (enqueue_message("r3", tenant=""), "tenant_id"),
            (enqueue_message("r4", attempts=-1), "attempts"),
            (enqueue_message("r5", prefix_hashes=[b"short"]), "prefix_hashes"),
            (enqueue_message("r6", arrival_time=Timestamp(seconds=-(2**63))), "arrival_time"),
            (enqueue_message("r7", deadline=Timestamp(nanos=-1)), "deadline"),
            (enqueue_message("r8", waiting_since=Timestamp(seconds=2**62)), "waiting_since"),
        ]
        events = [wire.GatewayEvent(enqueue=message) for message, _ in bad]
        events.append(wire.GatewayEvent(enqueue=enqueue_message("good")))
        await gateway.call.write(wire.DispatchRequest(events=events))
        await gateway.dispatched("good")
        for message, field in bad:
            rejected = await gateway.news("rejected", message.request_id)
            assert reason_name(rejected.error_reason) == "INVALID_FIELD"
            assert field in rejected.message


async def test_a_request_that_the_scheduler_fails_to_take_in_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with live_scheduler() as live:
        gateway = await live.gateway()

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(live.app.scheduler, "enqueue", broken)
        await gateway.enqueue("r1")
        rejected = await gateway.news("rejected", "r1")
        assert reason_name(rejected.error_reason) == "INTERNAL"


async def test_an_answer_of_fewer_than_no_tokens_is_charged_nothing_and_ends() -> None:
    async with live_scheduler() as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        dispatched = await gateway.dispatched("r1")
        await worker.run(dispatched, output=-(2**40))
        await gateway.finish(dispatched, output=-(2**40))
        await worker.end(dispatched.attempt)
        await eventually(live.at_rest)
        assert live.sample("weir_scheduler_service_tokens_total", {"tenant": "acme"}) == 10


async def test_a_worker_of_negative_size_is_refused_by_field() -> None:
    async with live_scheduler() as live:
        call = live.stub.ConnectWorker()
        wrong = WorkerRegistration(worker_id="w", address="a:1", model="m", total_kv_blocks=-5)
        await call.write(wire.ConnectWorkerRequest(registration=wrong))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
        assert "registration.total_kv_blocks is -5" in str(caught.value.details())


async def test_unknown_models_and_oversized_requests_are_refused_at_once() -> None:
    async with live_scheduler() as live:
        await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("r1", model="nowhere")
        await gateway.enqueue("r2", prompt_tokens=999, max_new_tokens=1)
        await gateway.enqueue("r3", prompt_tokens=1_000, max_new_tokens=1)
        assert reason_name((await gateway.news("rejected", "r1")).error_reason) == "MODEL_NOT_FOUND"
        await gateway.dispatched("r2")
        rejected = await gateway.news("rejected", "r3")
        assert reason_name(rejected.error_reason) == "REQUEST_TOO_LARGE"
        assert not rejected.HasField("retry_after")
        labels = {"tenant": "acme", "reason": "REQUEST_TOO_LARGE"}
        assert live.sample("weir_scheduler_rejections_total", labels) == 1


async def test_before_the_directory_is_known_requests_are_refused_with_a_reason() -> None:
    async with live_scheduler(Snapshot(version=1)) as live:
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        rejected = await gateway.news("rejected", "r1")
        assert reason_name(rejected.error_reason) == "MODEL_NOT_FOUND"


async def test_the_first_frame_must_name_the_gateway_and_register_the_worker() -> None:
    async with live_scheduler() as live:
        call = live.stub.Dispatch()
        await call.write(wire.DispatchRequest())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "gateway_id" in str(caught.value.details())
        worker = live.stub.ConnectWorker()
        await worker.write(wire.ConnectWorkerRequest(report=WorkerReport()))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in worker:
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_queue_can_be_listed_in_pages() -> None:
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("run")
        await worker.run(await gateway.dispatched("run"))
        for number in range(5):
            await gateway.enqueue(f"r{number}", "acme" if number % 2 else "other")
        await eventually(lambda: live.app.scheduler.waiting == 5)
        first = await live.stub.ListQueue(wire.ListQueueRequest(page_size=3))
        rest = await live.stub.ListQueue(
            wire.ListQueueRequest(page_size=3, page_token=first.next_page_token)
        )
        both = [*first.requests, *rest.requests]
        assert [request.request_id for request in both] == [f"r{n}" for n in range(5)]
        assert (first.total, rest.next_page_token) == (5, "")
        assert [request.position for request in both] == [1, 1, 2, 2, 3]
        assert {r.reason for r in both} == {
            wire.QUEUE_REASON_WORKER_FULL,
            wire.QUEUE_REASON_BEHIND_OTHERS,
        }
        assert len(await live.queue("acme")) == 2
        depth = {"tenant": "other", "reason": "worker_full"}
        assert live.sample("weir_scheduler_queue_depth", depth) == 1
        for bad in (wire.ListQueueRequest(page_size=-1), wire.ListQueueRequest(page_token="!")):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await live.stub.ListQueue(bad)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_workers_are_listed_with_load_and_counters() -> None:
    async with live_scheduler() as live:
        worker = await live.worker("w1", gpu_id="gpu-0", batch_invariant=True)
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        await gateway.enqueue("r2")
        await worker.run(await gateway.dispatched("r1"))
        await gateway.dispatched("r2")

        async def counted() -> bool:
            view = (await live.workers())["w1"]
            return (view.pending_attempts, view.running_attempts) == (1, 1)

        await eventually(counted)
        view = (await live.workers())["w1"]
        assert view.state == "ready"
        assert view.registration.gpu_id == "gpu-0"
        assert view.load.held_kv_blocks == 1
        assert view.last_report_time.seconds > 0
        assert live.sample("weir_scheduler_workers", {"state": "ready"}) == 1


async def test_draining_an_unknown_worker_is_not_found() -> None:
    async with live_scheduler() as live:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await live.stub.DrainWorker(wire.DrainWorkerRequest(worker_id="nobody"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_the_cluster_secret_is_required() -> None:
    async with live_scheduler() as live:
        for token in (None, SecretStr("wrong" * 10)):
            stub = SchedulerServiceStub(live.open(token))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.ListWorkers(wire.ListWorkersRequest())
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_each_wait_is_a_span_in_the_requests_trace() -> None:
    trace_id = secrets.token_hex(16)
    async with live_scheduler(ONE_AT_A_TIME) as live:
        worker = await live.worker()
        gateway = await live.gateway()
        await gateway.enqueue("run")
        run = await gateway.dispatched("run")
        await worker.run(run)
        trace = TraceContext(traceparent=f"00-{trace_id}-{secrets.token_hex(8)}-01")
        await gateway.enqueue("r1", trace=trace)
        await gateway.news("queued", "r1")
        await worker.end(run.attempt)
        await gateway.failed(await gateway.dispatched("r1"), LOST, fault=False)
        await gateway.news("requeued", "r1")
        await gateway.send(withdraw=wire.Withdraw(request_id="r1"))
        await eventually(lambda: live.app.scheduler.waiting == 0)
    mine = [
        span
        for span in live.spans.get_finished_spans()
        if span.name == "queue" and f"{span.context.trace_id:032x}" == trace_id
    ]
    outcomes = [str((span.attributes or {})["weir.outcome"]) for span in mine]
    assert outcomes == ["dispatched", "withdrawn"]
    assert [(span.attributes or {})["weir.attempt"] for span in mine] == [1, 2]
    reasons = [(event.attributes or {})["weir.reason"] for event in mine[0].events]
    assert reasons == ["worker_full"]
    for span in mine:
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


async def test_health_and_reflection_answer() -> None:
    async with live_scheduler() as live:
        stub: Any = health_pb2_grpc.HealthStub(live.open(None))
        request = health_pb2.HealthCheckRequest(service="weir.scheduler.v1.SchedulerService")
        answer = await stub.Check(request)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


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
