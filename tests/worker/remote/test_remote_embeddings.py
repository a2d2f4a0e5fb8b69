"""Embeddings that another engine makes by its `/v1/embeddings`."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.worker.remote.test_remote_worker import generate, remote_worker
from tests.worker.remote.upstream_server import MODEL, UpstreamServer, running_upstream
from tests.worker.server.support import RunningWorker, spec
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import GenerationSpec, GetModelInfoRequest
from weir_core.errors import InvalidField
from weir_worker.remote.options import RemoteOptions


@pytest.fixture
async def upstream() -> AsyncIterator[UpstreamServer]:
    async with running_upstream() as server:
        yield server


def wanted(*lengths: int) -> GenerationSpec:
    made = spec(prompt=list(range(65, 65 + sum(lengths))), max_new_tokens=1)
    made.embed_lengths.extend(lengths)
    return made


async def registered(worker: RunningWorker) -> bool:
    info = await worker.stub.GetModelInfo(GetModelInfoRequest(), timeout=5)
    return info.registration.embeddings


async def test_each_input_is_asked_for_by_its_ids(upstream: UpstreamServer, tmp_path: Path) -> None:
    async with remote_worker(upstream, tmp_path, upstream_embeddings=True) as worker:
        assert await registered(worker)
        deltas, terminal = await generate(worker, wanted(2, 3))
        upstream.status = 503
        _, busy = await generate(worker, wanted(1))
        upstream.status, upstream.embedding = 200, [0.0]
        _, wrong = await generate(worker, wanted(1))
    vectors = {delta.choice: list(delta.embedding) for delta in deltas}
    assert vectors == {0: pytest.approx([0.6, 0.8]), 1: pytest.approx([0.6, 0.8])}
    assert sorted(body["input"] for body in upstream.bodies[:2]) == [[65, 66], [67, 68, 69]]
    assert {body["model"] for body in upstream.bodies} == {MODEL}
    assert terminal.finish_reason == FinishReason.FINISH_REASON_STOP
    assert (terminal.usage.prompt_tokens, terminal.usage.completion_tokens) == (5, 0)
    assert busy.finish_reason == wrong.finish_reason == FinishReason.FINISH_REASON_ERROR
    assert "embeddings API" in wrong.error_message


async def test_an_engine_that_is_not_said_to_make_them_is_not_asked(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    async with remote_worker(upstream, tmp_path) as worker:
        assert not await registered(worker)
        with pytest.raises(grpc.aio.AioRpcError, match="makes no embeddings"):
            await generate(worker, wanted(2))
    assert not upstream.bodies


def test_an_engine_behind_grpc_cannot_be_said_to() -> None:
    with pytest.raises(InvalidField, match="upstream_embeddings"):
        RemoteOptions(url="grpc://127.0.0.1:1", model="m", embeddings=True)
