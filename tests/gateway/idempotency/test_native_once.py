"""A `Generate` with an idempotency key is run once, and its messages are replayed."""

import asyncio
from typing import Any

import grpc
import pytest

from tests.gateway.endings import grpc_call
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually
from tests.gateway.idempotency.pair import Pair
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def called(gateway: Gateway, key: str, **fields: Any) -> list[Any]:
    options: dict[str, Any] = {"max_new_tokens": 4, "idempotency_key": key} | fields
    return [message async for message in grpc_call(gateway, **options)]


async def refusal(gateway: Gateway, key: str, **fields: Any) -> Reason:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await called(gateway, key, **fields)
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL).reason


async def test_native_calls_replay_their_messages(pair: Pair) -> None:
    first = await called(pair.first, "native")
    assert not first[0].accepted.replayed
    again = await called(pair.second, "native")
    assert again[0].accepted.replayed
    again[0].accepted.replayed = False
    assert again == [message for message in first if message.WhichOneof("event") != "queued"]
    assert (pair.runs, pair.charges) == (1, 1)
    other = await refusal(pair.first, "native", max_new_tokens=5)
    assert other is Reason.IDEMPOTENCY_CONFLICT
    assert await refusal(pair.first, "k" * 256) is Reason.INVALID_FIELD


async def test_a_native_call_whose_deadline_passes_finds_its_answer(pair: Pair) -> None:
    pair.first.worker.script = Script(pause_after=2)
    assert await refusal(pair.first, "late", timeout=3.0) is Reason.DEADLINE_EXCEEDED
    assert await refusal(pair.second, "late") is Reason.IDEMPOTENCY_IN_PROGRESS
    pair.first.worker.resume.set()
    await eventually(lambda: pair.charges == 1)
    messages = await answered(pair.second, "late")
    assert messages[0].accepted.replayed
    assert messages[-1].finished.usage.completion_tokens == 4
    assert (pair.runs, pair.charges) == (1, 1)
    assert not pair.first.worker.aborts


async def test_a_native_failure_is_replayed(pair: Pair) -> None:
    pair.first.worker.script = Script(
        pieces=["a"], finish=FinishReason.FINISH_REASON_ERROR, error=Reason.ENGINE_FAILED
    )
    first = await refusal(pair.first, "native-failed")
    pair.first.worker.script = Script()
    again = await refusal(pair.second, "native-failed")
    assert (first, again) == (Reason.ENGINE_FAILED, Reason.ENGINE_FAILED)
    assert pair.runs == 1


async def answered(gateway: Gateway, key: str) -> list[Any]:
    """The messages, once the first call of the key has ended."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await called(gateway, key)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED:
                    raise
                await asyncio.sleep(0.02)
