"""Streams that a limit ends: what was made stands, is charged, and says why it is short."""

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir_client import AsyncClient
from weir_client import LimitExceeded as ClientLimitExceeded
from weir_core.errors import LimitExceeded, Reason, Violation

pytestmark = pytest.mark.asyncio(loop_scope="module")


def refuse_more_output(gateway: Gateway) -> None:
    """10 output tokens are reserved and no more are granted; the worker goes on when told."""
    violation = Violation(
        limit_id="tenant:acme/tpm",
        limit_type="tpm",
        resource="tokens",
        layer="tenant",
        limit=1_000,
        used=995,
        requested=8,
        reset_time_ms=1_900_000_000_000,
        knob="limit `tpm` of tenant acme",
    )
    error = LimitExceeded(
        Reason.TOKEN_LIMIT_EXCEEDED, "tenant:acme/tpm is used up", [violation], retry_after_s=60
    )
    gateway.limiter.reserve_output = 10
    gateway.limiter.refuse_extension = lambda e: error if e.additional_output_tokens else None
    gateway.worker.script = Script(pause_after=9, step_s=0.005)


async def resume_after_refusal(gateway: Gateway) -> None:
    await eventually(lambda: gateway.limiter.accounts)
    extensions = gateway.limiter.only().extensions
    await eventually(lambda: any(e.additional_output_tokens for e in extensions))
    gateway.worker.resume.set()


async def check_quota_stop(gateway: Gateway) -> int:
    """Checks account and record; returns the output tokens charged."""
    await gateway.at_rest()
    (settlement,) = gateway.limiter.only().settles
    record = settlement.lifecycle
    assert record.outcome == Outcome.OUTCOME_QUOTA_STOPPED
    assert record.finish_reason == FinishReason.FINISH_REASON_LENGTH
    assert record.error_reason == ErrorReason.ERROR_REASON_QUOTA_STOPPED
    charged = settlement.usage.completion_tokens
    assert 10 <= charged < 60
    return charged


async def test_a_refused_extension_stops_the_stream_once_its_tokens_are_used(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, extend_lookahead=8) as gateway:
        refuse_more_output(gateway)
        resuming = asyncio.create_task(resume_after_refusal(gateway))
        stream = await gateway.openai().chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "x"}],
            max_tokens=60,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks: list[Any] = []
        with pytest.raises(openai.APIError, match="is used up") as caught:
            await _read(stream, chunks)
        await resuming
        body: Any = caught.value.body
        assert (body["code"], body["limit_type"], body["used"]) == ("quota_stopped", "tpm", 995)
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
        charged = await check_quota_stop(gateway)
        assert chunks[-1].usage.completion_tokens == charged
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == "".join(f"t{n} " for n in range(charged))


async def test_an_answer_that_is_not_streamed_keeps_what_was_paid_for(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, extend_lookahead=8) as gateway:
        refuse_more_output(gateway)
        resuming = asyncio.create_task(resume_after_refusal(gateway))
        response = await gateway.chat(max_tokens=60)
        await resuming
        assert response.status_code == 200
        body = response.json()
        (choice,) = body["choices"]
        charged = await check_quota_stop(gateway)
        assert choice["finish_reason"] == "length"
        assert choice["message"]["content"] == "".join(f"t{n} " for n in range(charged))
        assert body["error"]["code"] == "quota_stopped"


async def test_a_quota_stop_over_grpc_is_a_last_message_and_a_status(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, extend_lookahead=8) as gateway:
        refuse_more_output(gateway)
        resuming = asyncio.create_task(resume_after_refusal(gateway))
        client = AsyncClient(gateway.app.grpc_address, gateway.key.secret)
        async with client, client.generate(MODEL, prompt="x", max_new_tokens=60) as answer:
            with pytest.raises(ClientLimitExceeded, match="is used up") as caught:
                [piece async for piece in answer]
        await resuming
        assert caught.value.reason == "QUOTA_STOPPED"
        assert caught.value.violations[0].limit_id == "tenant:acme/tpm"
        assert answer.finish_reason == "length"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == await check_quota_stop(gateway)


async def _read(stream: Any, chunks: list[Any]) -> None:
    async for chunk in stream:
        chunks.append(chunk)  # noqa: PERF401 - what came before an error is kept
