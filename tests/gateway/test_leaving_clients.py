"""Clients that leave, at every point: the work stops, and what ran is charged once."""

import asyncio
from pathlib import Path

import grpc
import pytest

from tests.gateway.endings import (
    BODY,
    EXACT,
    OpenStream,
    grpc_call,
    read_until,
    settled,
)
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.sampling_pb2 import FinishReason

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("tokens", [1, 3])
async def test_a_client_that_leaves_mid_stream_stops_the_worker(
    gateway: Gateway, tokens: int
) -> None:
    """Reported elsewhere as BerriAI/litellm#34147: the upstream went on and nobody paid."""
    async with OpenStream(gateway, tokens):
        assert gateway.worker.running == 1
    account, record = await settled(gateway)
    settle = account.settles[0]
    assert settle.outcome == Outcome.OUTCOME_CLIENT_GONE
    assert settle.usage.completion_tokens == tokens
    assert settle.usage.prompt_tokens == len(gateway.worker.specs[0].prompt_token_ids)
    assert settle.usage_quality == EXACT
    assert record.outcome == Outcome.OUTCOME_CLIENT_GONE
    assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
    assert [a.number for a in gateway.worker.aborts][:1] == [1]
    await eventually(lambda: gateway.scheduler.finished)
    assert gateway.scheduler.withdrawn == [record.request_id]
    assert record.gpu_id == "gpu-of-worker-0"


async def test_a_client_that_leaves_while_it_waits_is_refunded(gateway: Gateway) -> None:
    gateway.scheduler.hold = True
    task = asyncio.create_task(gateway.http.post("/v1/chat/completions", json=BODY))
    await eventually(lambda: gateway.scheduler.enqueued)
    task.cancel()
    await eventually(lambda: not gateway.limiter.open_accounts)
    account = gateway.limiter.only()
    assert not account.settles
    assert account.refunds[0].outcome == Outcome.OUTCOME_CLIENT_GONE
    assert gateway.scheduler.withdrawn == [account.request.request_id]
    assert not gateway.worker.specs


async def test_a_client_that_leaves_while_it_is_reserved_is_refunded(gateway: Gateway) -> None:
    gateway.scheduler.hold = True
    edge = gateway.app.edge
    assert edge is not None
    for call in (
        lambda: gateway.http.post("/v1/chat/completions", json=BODY),
        lambda: read_until(grpc_call(gateway), "accepted"),
    ):
        gate = gateway.limiter.reserve_gate = asyncio.Event()
        task = asyncio.create_task(call())
        await eventually(lambda: gateway.limiter.reserving == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gate.set()
        await eventually(lambda: len(edge.records) == 0)
    assert [len(account.refunds) for account in gateway.limiter.accounts.values()] == [1, 1]
    assert not gateway.worker.specs


async def test_a_client_that_leaves_a_whole_answer_stops_the_worker(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=2)
    body = BODY | {"stream": False}
    task = asyncio.create_task(gateway.http.post("/v1/chat/completions", json=body))
    await eventually(lambda: gateway.worker.running)
    task.cancel()
    account, _ = await settled(gateway)
    assert account.settles[0].outcome == Outcome.OUTCOME_CLIENT_GONE


async def test_a_client_that_leaves_after_the_last_token_was_answered(gateway: Gateway) -> None:
    """Reported elsewhere as vllm-project/aibrix#2224: counted as a failure."""
    async with gateway.http.stream("POST", "/v1/chat/completions", json=BODY) as response:
        async for text in response.aiter_text():
            if "[DONE]" in text:
                break
    account, _ = await settled(gateway)
    assert account.settles[0].outcome == Outcome.OUTCOME_OK


@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_grpc_call_that_ends_early_is_charged_exactly(gateway: Gateway, how: str) -> None:
    gateway.worker.script = Script(pause_after=3)
    call = grpc_call(gateway, timeout=4.0 if how == "deadline" else None)
    await read_until(call, "delta")
    if how == "cancel":
        call.cancel()
    account, record = await settled(gateway)
    expected = Outcome.OUTCOME_CANCELLED if how == "cancel" else Outcome.OUTCOME_DEADLINE_EXCEEDED
    assert record.outcome == expected
    assert account.settles[0].usage.completion_tokens == 3
    if how == "deadline":
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_the_servers_own_deadline_is_told(gateway: Gateway) -> None:
    edge = gateway.app.edge
    assert edge is not None
    edge._reception._most_s = 1.5
    try:
        gateway.worker.script = Script(pause_after=1)
        streamed = await gateway.chat(stream=True)
        assert "deadline_exceeded" in streamed.text
        assert streamed.text.endswith("data: [DONE]\n\n")
        gateway.scheduler.hold = True
        waiting = await gateway.chat()
        assert waiting.status_code == 504
        assert "1.5 s" in waiting.json()["error"]["message"]
    finally:
        edge._reception._most_s = 600.0


async def test_a_client_that_does_not_read_is_stopped_and_holds_up_nobody(
    gateway: Gateway,
) -> None:
    gateway.worker.script = Script(pieces=["x" * 400_000] * 50)
    body = BODY | {"max_tokens": 50}
    async with gateway.http.stream("POST", "/v1/chat/completions", json=body):
        await eventually(lambda: gateway.limiter.accounts)
        (reader,) = gateway.limiter.accounts
        gateway.workers[0].script = Script()
        assert (await gateway.chat(max_tokens=3)).status_code == 200
        await eventually(lambda: not gateway.limiter.accounts[reader].open)
        settle = gateway.limiter.accounts[reader].settles[0]
    assert settle.outcome == Outcome.OUTCOME_CLIENT_GONE
    assert 10 < settle.usage.completion_tokens <= 50
    assert settle.usage_quality == EXACT


async def test_a_client_that_stalls_is_given_up(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, stall_s=0.3) as gateway:
        body = BODY | {"max_tokens": 60}
        handlers = gateway.app._http._server.server_state.tasks
        gateway.worker.script = Script(pieces=["x" * 400_000] * 50)
        async with gateway.http.stream("POST", "/v1/chat/completions", json=body):
            await settled(gateway)
            await eventually(lambda: not handlers)
        gateway.limiter.reset()
        gateway.worker.script = Script(pieces=["x" * 15_000] * 60)
        options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
        async with grpc.aio.insecure_channel(gateway.app.grpc_address, options=options) as narrow:
            gateway.channel = narrow
            call = grpc_call(gateway, max_new_tokens=60)
            await anext(aiter(call))
            await settled(gateway)
            await asyncio.sleep(1.0)  # longer than stall_s, which nothing shows from outside
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                [message async for message in call]
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert "read nothing" in (caught.value.details() or "")
