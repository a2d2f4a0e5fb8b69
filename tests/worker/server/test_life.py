"""A worker's life: health, drain, loss of the engine, what stop leaves behind."""

import asyncio
import os
import signal
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

from tests.worker.server.support import (
    SECRET,
    RunningWorker,
    eventually,
    open_gateway,
    running_worker,
    spec,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import (
    DrainRequest,
    DrainResponse,
    GenerateRequest,
    GetLoadRequest,
    GetModelInfoRequest,
)
from weir_core.errors.startup import StartupError
from weir_core.rpc.channel import open_channel

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def health_of(worker: RunningWorker, service: str = "weir.worker.v1.WorkerService") -> int:
    channel = open_channel(worker.app.address, name="worker")
    try:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=2)
        return int(answer.status)
    finally:
        await channel.close()


async def test_model_info_and_load_say_what_is_served() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=1900))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        info = await worker.stub.GetModelInfo(GetModelInfoRequest())
        assert info.registration.worker_id == worker.app.worker_id
        assert [a.request_id for a in info.registration.running] == [key[0]]
        assert (info.vocab_size, info.engine, info.dtype) == (259, "tokenweir", "none")
        load = (await worker.stub.GetLoad(GetLoadRequest())).load
        assert load.running_requests == 1
        assert load.held_kv_blocks >= 2
        assert load.kv_bytes_used == load.held_kv_blocks * 16 * info.kv_bytes_per_token
        assert load.free_kv_blocks + load.cached_kv_blocks + load.held_kv_blocks == 256
        assert load.step_time.ToMicroseconds() >= 1000
        assert await health_of(worker) == await health_of(worker, "") == SERVING


async def test_the_drain_call_waits_for_what_runs() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=2000))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        early = await _drained_for_a_moment(worker)
        assert early.running == 1
        assert await health_of(worker) == NOT_SERVING
        (refused,) = await gateway.start(spec())
        record = (await gateway.ended_answer(refused)).terminal
        assert record.error_reason == ErrorReason.ERROR_REASON_DRAINING
        done = await worker.stub.Drain(DrainRequest(), timeout=30)
        assert done.running == 0
        assert len(gateway.answer(key).token_ids) >= 1999
        assert (await worker.stub.Drain(DrainRequest(cancel=True))).running == 0
        await eventually(lambda: not worker.worker.drain.active)
        assert await health_of(worker) == SERVING
        (again,) = await gateway.start(spec())
        assert len((await gateway.ended_answer(again)).token_ids) == 8


async def _drained_for_a_moment(worker: RunningWorker) -> DrainResponse:
    """The answer of a call that ends before what runs; a standstill may be longer than its time."""
    while True:
        try:
            return await worker.stub.Drain(DrainRequest(), timeout=0.3)
        except grpc.aio.AioRpcError as exc:
            if exc.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise


async def test_a_drain_past_its_grace_aborts_with_a_reason_and_the_gateway_hears_it() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=2000))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        await worker.app.drain(0.1)
        record = (await gateway.ended_answer(key)).terminal
        assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert record.error_reason == ErrorReason.ERROR_REASON_DRAINING
        assert record.usage.completion_tokens == len(gateway.answer(key).token_ids)
        await worker.app.stop()
        await eventually(lambda: gateway.ended)
        with pytest.raises(grpc.aio.AioRpcError):
            await worker.stub.GetLoad(GetLoadRequest(), timeout=1)
        await worker.app.stop()


async def test_stopping_at_once_still_delivers_the_records() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        keys = await gateway.start(*(spec(max_new_tokens=2000) for _ in range(10)))
        await gateway.until(lambda: all(gateway.answer(key).token_ids for key in keys))
        began = asyncio.get_running_loop().time()
        await worker.app.stop()
        assert asyncio.get_running_loop().time() - began < 10
        for key in keys:
            record = (await gateway.ended_answer(key)).terminal
            assert record.error_reason == ErrorReason.ERROR_REASON_DRAINING


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_dead_or_frozen_engine_ends_everything_with_worker_lost(
    how: signal.Signals,
) -> None:
    async with (
        running_worker(process=True, engine_timeout_s=0.8) as worker,
        open_gateway(worker) as gateway,
    ):
        keys = await gateway.start(*(spec(max_new_tokens=2000) for _ in range(3)))
        await gateway.until(lambda: all(gateway.answer(key).token_ids for key in keys))
        os.kill(worker.worker.engine.ready.pid, how)
        for key in keys:
            answer = await gateway.ended_answer(key)
            record = answer.terminal
            assert record.finish_reason == FinishReason.FINISH_REASON_ERROR
            assert record.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST
            assert record.usage.completion_tokens == len(answer.token_ids) > 0
            assert record.usage.prompt_tokens == 20
            assert record.received_time.seconds
            assert record.first_token_time.seconds
        ((why, failed),) = worker.ends
        assert failed
        assert "the engine is lost" in why
        assert await health_of(worker) == NOT_SERVING
        (late,) = await gateway.start(spec())
        refused = (await gateway.ended_answer(late)).terminal
        assert refused.finish_reason == FinishReason.FINISH_REASON_REJECTED
        assert worker.metric("weir_worker_engine_up") == 0
        assert worker.metric("weir_worker_requests", state="running") == 0
        assert worker.metric("kv_cache_bytes_used") == 0


async def test_a_plain_call_hears_of_a_lost_engine() -> None:
    async with running_worker(process=True) as worker:
        call = worker.stub.Generate(GenerateRequest(spec=spec(max_new_tokens=2000)))
        events = [await anext(aiter(call))]
        os.kill(worker.worker.engine.ready.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            events += [event async for event in call]
        last = events[-1].terminal
        assert last.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST


async def test_a_worker_says_in_one_line_why_it_cannot_start() -> None:
    async with running_worker() as worker:
        with pytest.raises(StartupError, match=r"cannot listen on .*; change address"):
            async with running_worker(address=worker.app.address):
                pass
    cases: list[tuple[dict[str, object], str]] = [
        ({"model": "/no/such/folder"}, "model is '/no/such/folder'; it must be a model folder"),
        ({"block_size": 17}, "block_size is 17; it must be 16, 32"),
        ({"max_step_tokens": 10}, "max_step_tokens is 10; it must be at least max_running"),
        ({"scheduler_address": "127.0.0.1:1", "cluster_token": None}, "set WEIR_CLUSTER_TOKEN"),
    ]
    for settings, message in cases:
        with pytest.raises(StartupError) as failed:
            async with running_worker(process=True, **settings):
                pass
        assert message in str(failed.value)
        assert "\n" not in str(failed.value)


async def test_reflection_names_the_service() -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    async with running_worker() as worker:
        channel = open_channel(worker.app.address, name="worker", token=SecretStr(SECRET))
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type]
        call = stub.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        answer = await anext(aiter(call))
        names = {service.name for service in answer.list_services_response.service}
        assert "weir.worker.v1.WorkerService" in names
        await channel.close()
