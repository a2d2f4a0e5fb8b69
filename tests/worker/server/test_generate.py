"""Generate: one request on a stream of its own, for everyone with a stub."""

import contextlib

import grpc
import pytest

from tests.worker.server.support import TRACE_ID, eventually, running_worker, spec
from weir.common.v1.lifecycle_pb2 import TraceContext
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import GenerateRequest, GenerateResponse
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel


async def test_deltas_then_one_terminal() -> None:
    async with running_worker() as worker:
        events = [
            e async for e in worker.stub.Generate(GenerateRequest(spec=spec(max_new_tokens=40)))
        ]
        assert [e.WhichOneof("event") for e in events[-1:]] == ["terminal"]
        deltas = [e.delta for e in events[:-1]]
        assert sum(len(delta.token_ids) for delta in deltas) == 40
        assert len("".join(delta.text for delta in deltas)) == 40
        assert deltas[-1].completion_tokens == 40
        assert events[-1].terminal.usage.completion_tokens == 40


async def test_cancelling_the_call_aborts() -> None:
    async with running_worker() as worker:
        wanted = spec(max_new_tokens=2000)
        call = worker.stub.Generate(GenerateRequest(spec=wanted))
        await anext(aiter(call))
        call.cancel()
        await worker.kv_is_free()
        record = worker.worker.attempts.record(wanted.attempt.request_id, 1)
        assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert 0 < record.usage.completion_tokens < 2000


async def test_cancelling_a_call_that_was_not_read_aborts() -> None:
    """The handler is blocked in its write then, and its generator is closed, not cancelled."""
    async with running_worker(null_step_us=0, max_context=100_000, num_blocks=8192) as worker:
        wanted = spec(max_new_tokens=60_000)
        call = worker.stub.Generate(GenerateRequest(spec=wanted))
        await eventually(
            lambda: (worker.metric("weir_worker_generation_tokens_total") or 0) > 4_000, 20
        )
        call.cancel()
        await worker.kv_is_free()
        assert worker.worker.attempts.record(wanted.attempt.request_id, 1).usage.completion_tokens


async def test_a_channel_that_closes_aborts() -> None:
    async with running_worker() as worker:
        wanted = spec(max_new_tokens=2000)
        token = worker.app.settings.cluster_token
        channel = open_channel(worker.app.address, name="worker", token=token)
        call = type(worker.stub)(channel).Generate(GenerateRequest(spec=wanted))
        await anext(aiter(call))
        await channel.close()
        await worker.kv_is_free()


async def test_the_deadline_of_the_call_bounds_the_request() -> None:
    async with running_worker() as worker:
        wanted = spec(max_new_tokens=2000)
        call = worker.stub.Generate(GenerateRequest(spec=wanted), timeout=0.2)
        events: list[GenerateResponse] = []
        with contextlib.suppress(grpc.aio.AioRpcError):
            events.extend([event async for event in call])
        # The worker may be the first to notice; then it ends the stream itself.
        told = events and events[-1].terminal.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert told or await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await worker.kv_is_free()


async def test_the_deadline_of_the_spec_ends_it_with_a_record() -> None:
    async with running_worker() as worker:
        wanted = spec(max_new_tokens=2000)
        wanted.deadline.GetCurrentTime()
        wanted.deadline.FromMicroseconds(wanted.deadline.ToMicroseconds() + 150_000)
        events = [e async for e in worker.stub.Generate(GenerateRequest(spec=wanted))]
        assert events[-1].terminal.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert "deadline" in events[-1].terminal.error_message


async def test_a_refusal_is_a_status_that_names_the_field() -> None:
    async with running_worker() as worker:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in worker.stub.Generate(GenerateRequest(spec=spec(max_new_tokens=0))):
                pass
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        error = from_rpc_error(refused.value, unavailable_as=Reason.WORKER_LOST)
        assert (error.reason, error.field) == ("INVALID_FIELD", "max_new_tokens")
        events = [e async for e in worker.stub.Generate(GenerateRequest(spec=spec()))]
        assert events[-1].terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH


async def test_a_grant_is_needed_where_there_is_a_scheduler() -> None:
    async with running_worker(scheduler_address="127.0.0.1:1") as worker:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in worker.stub.Generate(GenerateRequest(spec=spec())):
                pass
        assert (
            from_rpc_error(refused.value, unavailable_as=Reason.WORKER_LOST).reason
            == "GRANT_INVALID"
        )


async def test_the_cluster_secret_is_needed() -> None:
    async with running_worker() as worker:
        channel = open_channel(worker.app.address, name="worker")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in type(worker.stub)(channel).Generate(GenerateRequest(spec=spec())):
                pass
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        await channel.close()


async def test_without_a_trace_of_its_own_the_request_joins_that_of_the_call() -> None:
    async with running_worker() as worker:
        metadata = [("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01")]
        request = GenerateRequest(spec=spec(trace=TraceContext()))
        async for _ in worker.stub.Generate(request, metadata=metadata):
            pass
        spans = worker.spans.get_finished_spans()
        assert {"worker", "prefill", "decode"} <= {span.name for span in spans}
        assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE_ID}
