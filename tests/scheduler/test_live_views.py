"""What operators read of the service over real gRPC."""

import secrets
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

from tests.scheduler.live import (
    default_snapshot,
    eventually,
    live_scheduler,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import TraceContext
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub

LOST = ErrorReason.ERROR_REASON_WORKER_LOST
ONE_AT_A_TIME = default_snapshot(max_concurrent_requests=1)


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
