"""Attempts that ask for embeddings: an input each, one record, nothing generated."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.tiny_llama import tiny_tokenizer, write_tiny_llama
from tests.worker.server.support import (
    Gateway,
    RunningWorker,
    grant_for,
    open_gateway,
    running_worker,
    spec,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.worker.v1.worker_service_pb2 import (
    GenerateRequest,
    GenerationSpec,
    GetModelInfoRequest,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDS = tiny_tokenizer().encode("the cat and the dog were not there for all " * 3).ids
LENGTHS = [5, 1, 20, len(IDS) - 26]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llama(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningWorker]:
    folder = write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny")
    changes: dict[str, Any] = {"max_context": 512, "threads": 1, "device": "cpu"}
    async with running_worker(model=str(folder), **changes) as worker:
        yield worker


def embed_spec(prompt: list[int], lengths: list[int], **fields: Any) -> GenerationSpec:
    wanted = spec(prompt=prompt, max_new_tokens=1, **fields)
    wanted.embed_lengths.extend(lengths)
    return wanted


async def embedded(
    gateway: Gateway, prompt: list[int], lengths: list[int]
) -> tuple[dict[int, list[float]], TerminalRecord]:
    (key,) = await gateway.start(embed_spec(prompt, lengths))
    record = (await gateway.ended_answer(key, 60)).terminal
    vectors = {}
    for frame in gateway.frames:
        for delta in frame.deltas:
            if (delta.attempt.request_id, delta.attempt.number) == key:
                assert not delta.text
                assert delta.choice not in vectors
                vectors[delta.choice] = list(delta.embedding)
    return vectors, record


async def test_each_input_is_what_it_is_alone(llama: RunningWorker) -> None:
    async with open_gateway(llama) as gateway:
        together, record = await embedded(gateway, IDS, LENGTHS)
        start = 0
        for at, length in enumerate(LENGTHS):
            alone, _ = await embedded(gateway, IDS[start : start + length], [length])
            assert together[at] == pytest.approx(alone[0], abs=1e-5)
            start += length
    assert sorted(together) == [0, 1, 2, 3]
    assert record.finish_reason == FinishReason.FINISH_REASON_STOP
    usage = record.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (len(IDS), 0)
    assert usage.cached_prompt_tokens == 0
    await llama.kv_is_free()


async def test_the_worker_says_that_it_makes_them(llama: RunningWorker) -> None:
    info = await llama.stub.GetModelInfo(GetModelInfoRequest(), timeout=5)
    assert info.registration.embeddings


@pytest.mark.parametrize(
    ("lengths", "fields"),
    [
        ([3], {}),
        ([len(IDS), 1], {}),
        ([0, len(IDS)], {}),
        ([1] * 65, {}),
        ([len(IDS)], {"sampling": SamplingParams(n=2)}),
    ],
)
async def test_what_does_not_fit_is_refused(
    llama: RunningWorker, lengths: list[int], fields: dict[str, Any]
) -> None:
    wanted = embed_spec(IDS, lengths, **fields)
    request = GenerateRequest(spec=wanted, grant=grant_for(llama.app.worker_id, wanted))
    with pytest.raises(Exception, match="embed_lengths"):
        async for _ in llama.stub.Generate(request, timeout=20):
            pass


async def test_an_abort_ends_all_of_them(llama: RunningWorker) -> None:
    async with open_gateway(llama) as gateway:
        (key,) = await gateway.start(embed_spec(IDS * 3, [len(IDS)] * 3))
        await gateway.abort(key)
        record = (await gateway.ended_answer(key, 60)).terminal
    assert record.finish_reason in (
        FinishReason.FINISH_REASON_ABORT,
        FinishReason.FINISH_REASON_STOP,
    )
    assert record.error_reason in (
        ErrorReason.ERROR_REASON_CANCELLED,
        ErrorReason.ERROR_REASON_UNSPECIFIED,
    )
    await llama.kv_is_free()
