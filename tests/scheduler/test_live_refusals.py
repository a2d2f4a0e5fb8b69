"""What the service refuses over real gRPC, and how it says so."""

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.scheduler.live import (
    default_snapshot,
    enqueue_message,
    eventually,
    live_scheduler,
    reason_name,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.directory.v1.directory_pb2 import Snapshot
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.worker_report_pb2 import WorkerRegistration, WorkerReport

LOST = ErrorReason.ERROR_REASON_WORKER_LOST
ONE_AT_A_TIME = default_snapshot(max_concurrent_requests=1)


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


async def test_a_gateway_is_served_once_the_directory_is_known() -> None:
    """A gateway that is connected sends requests: before, they could only be refused."""
    async with live_scheduler(told=False) as live:
        gateway = await live.gateway()
        await gateway.enqueue("r1")
        await live.worker()
        await eventually(lambda: bool(list(live.app.scheduler.workers())))
        assert not gateway.events
        live.directory.told.set()
        await gateway.dispatched("r1")


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
