"""A worker whose model runs in vLLM, over its gRPC contract."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.worker.remote.test_remote_worker import generate, remote_worker
from tests.worker.remote.vllm_server import VllmServer, running_vllm
from tests.worker.server.support import eventually, spec
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.common.v1.usage_pb2 import UsageQuality
from weir.worker.v1.worker_service_pb2 import AbortRequest
from weir_core.errors.startup import StartupError


@pytest.fixture
async def vllm() -> AsyncIterator[VllmServer]:
    async with running_vllm() as server:
        yield server


async def test_ids_go_out_and_text_is_made_here(vllm: VllmServer, tmp_path: Path) -> None:
    sampling = SamplingParams(temperature=0.5, top_k=7, seed=3)
    async with remote_worker(vllm, tmp_path) as worker:
        wanted = spec(prompt=[65, 66, 67], max_new_tokens=5, sampling=sampling)
        deltas, terminal = await generate(worker, wanted)

    assert "".join(delta.text for delta in deltas) == "abcde"
    assert [i for delta in deltas for i in delta.token_ids] == [97, 98, 99, 100, 101]
    usage = terminal.usage
    assert (usage.prompt_tokens, usage.cached_prompt_tokens, usage.completion_tokens) == (3, 2, 5)
    assert terminal.usage_quality == UsageQuality.USAGE_QUALITY_EXACT
    assert terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
    request = vllm.requests[0]
    assert list(request.tokenized.input_ids) == [65, 66, 67]
    assert (request.sampling_params.top_k, request.sampling_params.seed) == (7, 3)


async def test_nothing_of_a_stop_string_is_shown(vllm: VllmServer, tmp_path: Path) -> None:
    sampling = SamplingParams(temperature=0, stop=["de"])
    async with remote_worker(vllm, tmp_path) as worker:
        deltas, _ = await generate(worker, spec(max_new_tokens=5, sampling=sampling))

    assert "".join(delta.text for delta in deltas) == "abc"


async def test_an_abort_cancels_the_call(vllm: VllmServer, tmp_path: Path) -> None:
    vllm.hold.clear()
    async with remote_worker(vllm, tmp_path) as worker:
        wanted = spec(prompt=6, max_new_tokens=50)
        running = asyncio.create_task(generate(worker, wanted))
        await eventually(lambda: worker.worker.engine.load.held_blocks > 0)
        request = AbortRequest(attempt=wanted.attempt, cause=Outcome.OUTCOME_CANCELLED)
        ended = await worker.stub.Abort(request, timeout=5)
        await running
        await eventually(lambda: vllm.cancelled == 1)

    assert ended.terminal.usage.completion_tokens == 1
    assert ended.terminal.usage_quality == UsageQuality.USAGE_QUALITY_ESTIMATED


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ErrorReason.ERROR_REASON_QUEUE_FULL),
        (grpc.StatusCode.UNAVAILABLE, ErrorReason.ERROR_REASON_QUEUE_FULL),
        (grpc.StatusCode.INVALID_ARGUMENT, ErrorReason.ERROR_REASON_ENGINE_FAILED),
        (grpc.StatusCode.INTERNAL, ErrorReason.ERROR_REASON_WORKER_LOST),
    ],
)
async def test_a_failure_ends_the_attempt_without_their_words(
    vllm: VllmServer, tmp_path: Path, code: grpc.StatusCode, reason: int
) -> None:
    vllm.code = code
    async with remote_worker(vllm, tmp_path) as worker:
        _, terminal = await generate(worker, spec())

    assert terminal.error_reason == reason
    assert "their words" not in terminal.error_message


async def test_a_silent_upstream_is_given_up(vllm: VllmServer, tmp_path: Path) -> None:
    vllm.hold.clear()
    async with remote_worker(vllm, tmp_path, upstream_silence_s=0.3) as worker:
        _, terminal = await generate(worker, spec())

    assert terminal.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST


async def test_another_model_fails_the_start_with_the_knob(
    vllm: VllmServer, tmp_path: Path
) -> None:
    with pytest.raises(StartupError, match="upstream_model"):
        async with remote_worker(vllm, tmp_path, upstream_model="other"):
            pass
