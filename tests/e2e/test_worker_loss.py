"""A worker is killed: before the first token nobody notices, after it the client is told."""

import asyncio
import os
import signal

import grpc
import pytest

from tests.e2e.counted import books_closed
from tests.e2e.deployment import Deployment
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

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="session")]


def _request(stack: Deployment, output: int) -> GenerateRequest:
    return GenerateRequest(
        model=stack.model,
        token_input=TokenInput(token_ids=list(range(10, 60))),
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        stream=True,
    )


async def test_a_request_without_a_token_moves_to_another_worker(pair: Deployment) -> None:
    await _both_ready(pair)
    victim, other = "worker-1", "worker-2"
    # A stopped process holds its attempt without a token until it is killed.
    os.kill(pair.stack.pids[other], signal.SIGSTOP)
    os.kill(pair.stack.pids[victim], signal.SIGSTOP)
    answer = asyncio.create_task(_answer(pair, "moved", 8))
    views = await until(
        pair.workers,
        lambda views: any(view.pending_attempts or view.running_attempts for view in views),
        "the dispatch",
    )
    holder = next(v for v in views if v.pending_attempts or v.running_attempts)
    lost = victim if holder.registration.worker_id.startswith(victim) else other
    kept = other if lost == victim else victim
    os.kill(pair.stack.pids[kept], signal.SIGCONT)
    os.kill(pair.stack.pids[lost], signal.SIGKILL)
    async with asyncio.timeout(60):
        record = await answer
    # Both attempts were under one reservation: one request, one charge.
    (row,) = [row for row in await books_closed(pair, ["moved"]) if row.tenant == "moved"]
    assert (row.requests, row.prompt, row.completion) == (1, 50, 8)
    assert record.attempts == 2
    assert record.usage.completion_tokens == 8
    assert record.usage_quality == USAGE_QUALITY_EXACT
    assert record.worker_id.startswith(kept)
    await _both_ready(pair)


async def test_a_stream_that_has_begun_ends_with_a_reason_and_is_charged_once(
    pair: Deployment,
) -> None:
    async with pair.inference() as stub:
        call = stub.Generate(_request(pair, 400), metadata=pair.metadata("told"), timeout=60)
        request_id, seen, killed = "", 0, 0.0
        with pytest.raises(grpc.aio.AioRpcError) as caught:  # noqa: PT012
            async for response in call:
                request_id = request_id or response.accepted.request_id
                before, seen = seen, seen + len(response.delta.token_ids)
                if before < 3 <= seen:
                    await _kill_holder(pair)
                    killed = asyncio.get_running_loop().time()
        # At once: a process that has ended is not asked again and again for its record.
        assert asyncio.get_running_loop().time() - killed < 2.5
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "worker" in (caught.value.details() or "")
        record = await _record(pair, request_id)
    assert record.usage_quality == USAGE_QUALITY_ESTIMATED
    assert 3 <= record.usage.completion_tokens < 400
    limits = await pair.limits(Subject(tenant_id="told", user_id="user", model=pair.model))
    assert all(limit.held == 0 for limit in limits.values())
    # The supervisor starts it again.
    await _both_ready(pair)
    assert (await _answer(pair, "told", 4)).usage.completion_tokens == 4


async def _kill_holder(stack: Deployment) -> None:
    """Kills the worker that runs the only request."""
    views = await until(
        stack.workers, lambda views: any(v.running_attempts for v in views), "the running attempt"
    )
    holder = next(view.registration.worker_id for view in views if view.running_attempts)
    name = next(name for name in ("worker-1", "worker-2") if holder.startswith(name))
    os.kill(stack.stack.pids[name], signal.SIGKILL)


async def _both_ready(stack: Deployment) -> None:
    async def ready() -> int:
        return sum(view.state == "ready" for view in await stack.workers())

    await until(ready, lambda count: count == 2, "both workers", timeout_s=60)


async def _answer(stack: Deployment, tenant: str, output: int) -> LifecycleRecord:
    last = GenerateResponse()
    async with stack.inference() as stub:
        call = stub.Generate(_request(stack, output), metadata=stack.metadata(tenant), timeout=60)
        async for response in call:
            last = response
    return last.finished.lifecycle


async def _record(stack: Deployment, request_id: str) -> LifecycleRecord:
    async with stack.inference() as stub:
        answer = await stub.GetRequest(
            GetRequestRequest(request_id=request_id), metadata=stack.metadata("told"), timeout=10
        )
    assert answer.terminal
    return answer.lifecycle
