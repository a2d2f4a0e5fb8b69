"""A worker is killed: before the first token nobody notices, after it the client is told."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from tests.e2e.conftest import WIDE
from tests.e2e.counted import COUNTED, PRICED, books_closed
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

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

TENANTS = {"counted": {"plan": "counted"}, "wide": {"plan": "wide"}}


def _request(stack: Deployment, output: int) -> GenerateRequest:
    return GenerateRequest(
        model=stack.model,
        token_input=TokenInput(token_ids=list(range(10, 60))),
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        stream=True,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Two workers of the model that computes nothing, in slow steps."""
    async with deployed(
        tmp_path_factory.mktemp("loss") / "state",
        None,
        tenants=TENANTS,
        plans=[*COUNTED, *WIDE],
        model=PRICED,
        workers=2,
        settings={"WEIR_WORKER__NULL_STEP_US": "20000"},
    ) as running:
        yield running


async def test_a_request_without_a_token_moves_to_another_worker(stack: Deployment) -> None:
    victim, other = "worker-1", "worker-2"
    # A stopped process holds its attempt without a token until it is killed.
    os.kill(stack.stack.pids[other], signal.SIGSTOP)
    os.kill(stack.stack.pids[victim], signal.SIGSTOP)
    answer = asyncio.create_task(_answer(stack, "counted", 8))
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
    async with asyncio.timeout(60):
        record = await answer
    # Both attempts were under one reservation: one request, one charge.
    (row,) = await books_closed(stack, ["counted"])
    assert (row.requests, row.prompt, row.completion) == (1, 50, 8)
    assert record.attempts == 2
    assert record.usage.completion_tokens == 8
    assert record.usage_quality == USAGE_QUALITY_EXACT
    assert record.worker_id.startswith(kept)
    await _both_ready(stack)


async def test_a_stream_that_has_begun_ends_with_a_reason_and_is_charged_once(
    stack: Deployment,
) -> None:
    async with stack.inference() as stub:
        call = stub.Generate(_request(stack, 400), metadata=stack.metadata("wide"), timeout=60)
        request_id, seen = "", 0
        with pytest.raises(grpc.aio.AioRpcError) as caught:  # noqa: PT012
            async for response in call:
                request_id = request_id or response.accepted.request_id
                before, seen = seen, seen + len(response.delta.token_ids)
                if before < 3 <= seen:
                    await _kill_holder(stack)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "worker" in (caught.value.details() or "")
        record = await _record(stack, request_id)
    assert record.usage_quality == USAGE_QUALITY_ESTIMATED
    assert 3 <= record.usage.completion_tokens < 400
    limits = await stack.limits(Subject(tenant_id="wide", user_id="user", model=stack.model))
    assert all(limit.held == 0 for limit in limits.values())
    # The supervisor starts it again.
    await _both_ready(stack)
    assert (await _answer(stack, "wide", 4)).usage.completion_tokens == 4


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
            GetRequestRequest(request_id=request_id), metadata=stack.metadata("wide"), timeout=10
        )
    assert answer.terminal
    return answer.lifecycle
