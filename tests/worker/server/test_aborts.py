"""Aborts: within a step, counted exactly, and the cache comes back."""

import asyncio
import random

import grpc
import pytest

from tests.worker.server.support import new_attempt, open_gateway, running_worker, spec
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import AbortRequest, GetTerminalRecordRequest


async def test_aborts_at_random_moments_free_everything_and_count_exactly() -> None:
    rng = random.Random(7)
    async with (
        running_worker(max_step_tokens=64, num_blocks=128) as worker,
        open_gateway(worker, "gw-1") as first,
        open_gateway(worker, "gw-2") as second,
    ):

        async def one(number: int) -> None:
            gateway = first if number % 2 else second
            prompt = rng.randint(1, 150)
            (key,) = await gateway.start(spec(prompt=prompt, max_new_tokens=rng.randint(1, 60)))
            await asyncio.sleep(rng.random() * 0.08)
            await gateway.abort(key)
            answer = await gateway.ended_answer(key, 10)
            usage = answer.terminal.usage
            # Every token that was counted was also told, and none beyond.
            assert usage.completion_tokens == len(answer.token_ids) == len(answer.text)
            assert (
                usage.prompt_tokens == prompt if answer.token_ids else usage.prompt_tokens <= prompt
            )
            assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens

        for _ in range(4):
            await asyncio.gather(*(one(number) for number in range(30)))
        await worker.kv_is_free()
        ended = sum(
            worker.metric("weir_worker_attempts_finished_total", reason=reason) or 0
            for reason in ("length", "abort")
        )
        assert ended == 120


async def test_an_abort_takes_effect_within_a_step() -> None:
    async with running_worker(null_step_us=200_000) as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=500))
        await gateway.until(lambda: len(gateway.answer(key).token_ids) == 3)
        await gateway.abort(key)
        answer = await gateway.ended_answer(key)
        # The step that was under way may end, no other begins.
        assert len(answer.token_ids) == answer.terminal.usage.completion_tokens <= 4
        await worker.kv_is_free()


async def test_an_abort_during_prefill_charges_what_was_computed() -> None:
    async with (
        running_worker(null_step_us=20_000, max_step_tokens=64) as worker,
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(prompt=2000, max_new_tokens=10))
        await asyncio.sleep(0.15)
        await gateway.abort(key, Outcome.OUTCOME_CLIENT_GONE)
        record = (await gateway.ended_answer(key)).terminal
        assert 0 < record.usage.prompt_tokens < 2000
        assert record.usage.prompt_tokens % 64 == 0
        assert record.usage.completion_tokens == 0
        assert record.prefill_start_time.seconds
        assert not record.HasField("first_token_time")
        await worker.kv_is_free()


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.OUTCOME_CANCELLED, ErrorReason.ERROR_REASON_CANCELLED),
        (Outcome.OUTCOME_DEADLINE_EXCEEDED, ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED),
        (Outcome.OUTCOME_QUOTA_STOPPED, ErrorReason.ERROR_REASON_QUOTA_STOPPED),
        (Outcome.OUTCOME_UNSPECIFIED, ErrorReason.ERROR_REASON_CANCELLED),
    ],
)
async def test_the_abort_call_answers_with_the_record_again_and_again(
    outcome: Outcome.ValueType, reason: ErrorReason.ValueType
) -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=1000))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        request = AbortRequest(attempt=Attempt(request_id=key[0], number=key[1]), cause=outcome)
        first, second = await asyncio.gather(worker.stub.Abort(request), worker.stub.Abort(request))
        third = await worker.stub.Abort(request)
        assert first == second == third
        assert first.terminal.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert first.terminal.error_reason == reason
        # The stream heard of it too, once.
        assert (await gateway.ended_answer(key)).terminal == first.terminal
        lookup = GetTerminalRecordRequest(attempt=Attempt(request_id=key[0]))
        assert (await worker.stub.GetTerminalRecord(lookup)).terminal == first.terminal


async def test_an_abort_that_overtakes_its_start_wins() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        attempt = new_attempt()
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await worker.stub.Abort(AbortRequest(attempt=attempt))
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        (key,) = await gateway.start(spec(attempt))
        record = (await gateway.ended_answer(key)).terminal
        assert record.finish_reason == FinishReason.FINISH_REASON_REJECTED
        assert record.error_reason == ErrorReason.ERROR_REASON_STALE_ATTEMPT


async def test_an_abort_must_name_an_attempt() -> None:
    async with running_worker() as worker:
        with pytest.raises(grpc.aio.AioRpcError) as bad:
            await worker.stub.Abort(AbortRequest(attempt=Attempt(request_id="r", number=0)))
        assert bad.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "attempt.number is 0; it must be 1 to" in (bad.value.details() or "")
