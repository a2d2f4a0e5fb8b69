"""A worker is killed: before the first token nobody notices, after it the client is told."""

import asyncio
import os
import signal
from pathlib import Path

import grpc
import pytest

from tests.e2e.conftest import WIDE
from tests.e2e.counted import COUNTED, books_closed
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.wait import until
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import USAGE_QUALITY_ESTIMATED, USAGE_QUALITY_EXACT
from weir.gateway.v1.inference_service_pb2 import (
    GenerateRequest,
    GenerateResponse,
    GetRequestRequest,
    TokenInput,
)

pytestmark = pytest.mark.timeout(180)

TENANTS = {"acme": {"plan": "wide"}}


def _request(stack: Deployment, output: int) -> GenerateRequest:
    return GenerateRequest(
        model=stack.model,
        token_input=TokenInput(token_ids=list(range(10, 60))),
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        stream=True,
    )


async def test_a_request_without_a_token_moves_to_another_worker(
    tmp_path: Path, tiny: Path
) -> None:
    tenants = {"acme": {"plan": "counted"}}
    async with deployed(
        tmp_path / "state", tiny, tenants=tenants, plans=COUNTED, workers=2
    ) as stack:
        victim, other = "worker-1", "worker-2"
        # A stopped process holds its attempt without a token until it is killed.
        os.kill(stack.stack.pids[other], signal.SIGSTOP)
        os.kill(stack.stack.pids[victim], signal.SIGSTOP)
        answer = asyncio.create_task(_answer(stack, 8))
        views = await until(
            stack.workers,
            lambda views: any(view.pending_attempts or view.running_attempts for view in views),
            "the dispatch",
        )
        holder = next(v for v in views if v.pending_attempts or v.running_attempts)
        lost = victim if holder.registration.worker_id.startswith(victim) else other
        kept = other if lost == victim else victim
        os.kill(stack.stack.pids[kept], signal.SIGCONT)
        os.kill(stack.stack.pids[lost], signal.SIGKILL)
        record = await asyncio.wait_for(answer, 60)
        # Both attempts were under one reservation: one request, one charge.
        (row,) = await books_closed(stack, ["acme"])
    assert (row.requests, row.prompt, row.completion) == (1, 50, 8)
    assert record.attempts == 2
    assert record.usage.completion_tokens == 8
    assert record.usage_quality == USAGE_QUALITY_EXACT
    assert record.worker_id.startswith(kept)


async def test_a_stream_that_has_begun_ends_with_a_reason_and_is_charged_once(
    tmp_path: Path, tiny: Path
) -> None:
    async with deployed(tmp_path / "state", tiny, tenants=TENANTS, plans=WIDE) as stack:
        async with stack.inference() as stub:
            call = stub.Generate(_request(stack, 400), metadata=stack.metadata("acme"), timeout=60)
            request_id, seen = "", 0
            with pytest.raises(grpc.aio.AioRpcError) as caught:  # noqa: PT012
                async for response in call:
                    request_id = request_id or response.accepted.request_id
                    seen += len(response.delta.token_ids)
                    if seen == 3:
                        os.kill(stack.stack.pids["worker-1"], signal.SIGKILL)
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            assert "worker" in (caught.value.details() or "")
            record = await _record(stack, request_id)
        assert record.usage_quality == USAGE_QUALITY_ESTIMATED
        assert 3 <= record.usage.completion_tokens < 400
        limits = await stack.limits(Subject(tenant_id="acme", user_id="user", model=stack.model))
        assert all(limit.held == 0 for limit in limits.values())
        await _answer_again(stack)


async def _answer(stack: Deployment, output: int) -> LifecycleRecord:
    last = GenerateResponse()
    async with stack.inference() as stub:
        call = stub.Generate(_request(stack, output), metadata=stack.metadata("acme"), timeout=60)
        async for response in call:
            last = response
    return last.finished.lifecycle


async def _answer_again(stack: Deployment) -> None:
    """The supervisor has restarted the worker: the next request works."""

    async def answered() -> bool:
        try:
            return (await _answer(stack, 4)).usage.completion_tokens == 4
        except grpc.aio.AioRpcError:
            return False

    await until(answered, bool, "an answer of the restarted worker", timeout_s=60)


async def _record(stack: Deployment, request_id: str) -> LifecycleRecord:
    async with stack.inference() as stub:
        answer = await stub.GetRequest(
            GetRequestRequest(request_id=request_id), metadata=stack.metadata("acme"), timeout=10
        )
    assert answer.terminal
    return answer.lifecycle
