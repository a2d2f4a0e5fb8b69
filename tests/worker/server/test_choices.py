"""Several answers of one request: computed side by side, one record, the prompt charged once."""

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.tiny_llama import tiny_tokenizer, write_tiny_llama
from tests.worker.server.support import (
    Gateway,
    RunningWorker,
    eventually,
    grant_for,
    open_gateway,
    running_worker,
    spec,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.worker.v1.worker_service_pb2 import GenerateRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = tiny_tokenizer().encode("the cat and the dog were not there for all ").ids
LENGTH = FinishReason.FINISH_REASON_LENGTH
STOP = FinishReason.FINISH_REASON_STOP


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llama(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningWorker]:
    folder = write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny")
    changes: dict[str, Any] = {"max_context": 512, "threads": 1, "device": "cpu"}
    async with running_worker(model=str(folder), **changes) as worker:
        yield worker


def texts_of(gateway: Gateway, key: tuple[str, int]) -> dict[int, str]:
    texts: defaultdict[int, str] = defaultdict(str)
    for frame in gateway.frames:
        for delta in frame.deltas:
            if (delta.attempt.request_id, delta.attempt.number) == key:
                texts[delta.choice] += delta.text
    return dict(texts)


def sampling(**fields: object) -> SamplingParams:
    return SamplingParams(**({"temperature": 1.0, "seed": 11} | fields))  # type: ignore[arg-type]


async def answers_of(gateway: Gateway, **fields: object) -> tuple[dict[int, str], TerminalRecord]:
    wanted = spec(prompt=PROMPT, max_new_tokens=12, sampling=sampling(**fields))
    (key,) = await gateway.start(wanted)
    record = (await gateway.ended_answer(key, 60)).terminal
    return texts_of(gateway, key), record


async def test_answer_i_is_what_seed_plus_i_gives_alone(llama: RunningWorker) -> None:
    penalties = {"frequency_penalty": 1.0, "logprobs": 2, "min_p": 0.01}
    async with open_gateway(llama) as gateway:
        together, record = await answers_of(gateway, n=4, **penalties)
        alone = [(await answers_of(gateway, seed=11 + i, **penalties))[0][0] for i in range(4)]
        greedy, _ = await answers_of(gateway, n=2, temperature=0.0)
        wrapped, _ = await answers_of(gateway, n=2, seed=2**63 - 1)
        lowest, _ = await answers_of(gateway, seed=-(2**63))
    assert [together[i] for i in range(4)] == alone
    assert len(set(alone)) == 4
    assert greedy[0] == greedy[1]
    assert wrapped[1] == lowest[0]
    assert [end.completion_tokens for end in record.choices] == [12] * 4
    await llama.kv_is_free()


async def test_the_prompt_is_charged_once_and_hardly_computed_again(llama: RunningWorker) -> None:
    async with open_gateway(llama) as gateway:
        _, record = await answers_of(gateway, n=5)
    usage = record.usage
    size = llama.worker.engine.ready.block_size
    assert usage.prompt_tokens == len(PROMPT)
    assert usage.completion_tokens == 60
    assert usage.total_tokens == len(PROMPT) + 60
    # Each of the others computes the part that fills no block, and its last token at least.
    tail = len(PROMPT) - (len(PROMPT) - 1) // size * size
    assert usage.recomputed_tokens == 4 * tail


async def test_each_answer_ends_by_itself(llama: RunningWorker) -> None:
    async with open_gateway(llama) as gateway:
        texts, _ = await answers_of(gateway, n=4)
        stop = texts[2][4:7]
        cut, record = await answers_of(gateway, n=4, stop=[stop])
    ends = [end.finish_reason for end in record.choices]
    for index in range(4):
        assert cut[index] == texts[index].split(stop)[0]
        assert ends[index] == (STOP if stop in texts[index] else LENGTH)
    assert ends[2] == STOP
    assert record.finish_reason == (LENGTH if LENGTH in ends else STOP)


async def test_an_abort_ends_all_of_them() -> None:
    async with running_worker(null_step_us=2000) as worker, open_gateway(worker) as gateway:
        wanted = spec(max_new_tokens=1500, sampling=SamplingParams(n=3))
        (key,) = await gateway.start(wanted)
        await gateway.until(lambda: len(texts_of(gateway, key)) == 3)
        await gateway.abort(key)
        answer = await gateway.ended_answer(key)
        assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert answer.terminal.error_reason == ErrorReason.ERROR_REASON_CANCELLED
        assert len(answer.terminal.choices) == 3
        assert answer.terminal.usage.completion_tokens == len(answer.token_ids)
        assert answer.completion_tokens == len(answer.token_ids)
        await worker.kv_is_free()
        assert len(gateway.answers) == 1


async def test_an_abort_before_the_prompt_is_computed_starts_no_others() -> None:
    async with (
        running_worker(null_step_us=20_000, max_step_tokens=64) as worker,
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(prompt=1900, sampling=SamplingParams(n=3)))
        await eventually(lambda: len(worker.worker.attempts))
        await gateway.abort(key)
        record = (await gateway.ended_answer(key)).terminal
        assert record.usage.prompt_tokens < 1900
        assert record.usage.completion_tokens == 0
        assert len(record.choices) == 3
        await worker.kv_is_free()


async def test_answers_count_as_places_and_the_grant_bounds_them_all() -> None:
    async with (
        running_worker(null_step_us=2000, max_concurrent_requests=4) as worker,
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(max_new_tokens=500, sampling=SamplingParams(n=3)))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        (second,) = await gateway.start(spec(sampling=SamplingParams(n=2)))
        refused = (await gateway.ended_answer(second)).terminal
        assert refused.error_reason == ErrorReason.ERROR_REASON_QUEUE_FULL
        assert "3 answers" in refused.error_message
        (third,) = await gateway.start(spec())
        assert (await gateway.ended_answer(third)).terminal.finish_reason == LENGTH
        await gateway.abort(key)
        await gateway.ended_answer(key)
        bad = spec(max_new_tokens=8, sampling=SamplingParams(n=9))
        (fourth,) = await gateway.start(bad)
        assert "sampling.n" in (await gateway.ended_answer(fourth)).terminal.error_message


async def test_the_plain_stream_has_them_too(llama: RunningWorker) -> None:
    wanted = spec(prompt=PROMPT, max_new_tokens=6, sampling=sampling(n=2, prompt_logprobs=1))
    grant = grant_for(llama.app.worker_id, wanted)
    texts: defaultdict[int, str] = defaultdict(str)
    told: list[object] = []
    async for response in llama.stub.Generate(GenerateRequest(spec=wanted, grant=grant)):
        if response.HasField("delta"):
            texts[response.delta.choice] += response.delta.text
            told += response.delta.prompt_logprobs
        else:
            assert len(response.terminal.choices) == 2
    assert sorted(texts) == [0, 1]
    assert len(told) == len(PROMPT) - 1
