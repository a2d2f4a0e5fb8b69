"""The same server over a real model: a tiny Llama in an engine process."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.tiny_llama import tiny_tokenizer, write_tiny_llama
from tests.worker.server.support import RunningWorker, open_gateway, running_worker, spec
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.worker.v1.worker_service_pb2 import GetModelInfoRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPTS = [
    "the cat and the dog",
    "for all there is one",
    "what",
    "你好，世界",
    "def f(x):\n    return x",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llama(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningWorker]:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_tiny_llama(folder)
    settings = {"model": str(folder), "max_context": 512, "threads": 1, "device": "cpu"}
    async with running_worker(process=True, max_step_tokens=96, **settings) as worker:
        yield worker


async def test_the_start_is_logged_with_what_computes(
    llama: RunningWorker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    info = await llama.stub.GetModelInfo(GetModelInfoRequest())
    folder = write_tiny_llama(tmp_path_factory.mktemp("models") / "logged")
    with capture_logs() as lines:
        async with running_worker(model=str(folder), threads=1, device="cpu", max_context=512):
            pass
    (line,) = [line for line in lines if line["event"] == "engine_started"]
    assert (line["precision"], line["device"]) == ("float32", "cpu") == (info.dtype, "cpu")
    assert line["attention_backend"] == info.attention_backend
    assert line["batch_invariant"] == info.registration.batch_invariant
    # The native attention comes with the kernels, and is the default where they compute.
    assert line["kernels"] in ("off", "avx2", "avx512", "amx")
    assert (line["kernels"] != "off") == (line["attention_backend"] == "native")


async def test_greedy_tokens_are_the_same_alone_and_among_others(llama: RunningWorker) -> None:
    tokenizer = tiny_tokenizer()
    prompts = [tokenizer.encode(text, add_special_tokens=False).ids for text in PROMPTS]
    async with open_gateway(llama, "gw-1") as first, open_gateway(llama, "gw-2") as second:
        alone = []
        for prompt in prompts:
            (key,) = await first.start(spec(prompt=prompt, max_new_tokens=24))
            alone.append(await first.ended_answer(key, 20))
        for number, answer in enumerate(alone):
            assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
            assert answer.terminal.usage.prompt_tokens == len(prompts[number])
            assert answer.text == tokenizer.decode(answer.token_ids)
        together = [
            (gateway, number, (await gateway.start(spec(prompt=prompt, max_new_tokens=24)))[0])
            for gateway in (first, second)
            for number, prompt in enumerate(prompts)
        ]
        for gateway, number, key in together:
            answer = await gateway.ended_answer(key, 20)
            assert answer.token_ids == alone[number].token_ids
            assert answer.text == alone[number].text
        info = await llama.stub.GetModelInfo(GetModelInfoRequest())
        assert info.vocab_size == 320
        assert info.dtype == "float32"
        await llama.kv_is_free()


async def test_stop_strings_and_aborts(llama: RunningWorker) -> None:
    async with open_gateway(llama) as gateway:
        (key,) = await gateway.start(spec(prompt=[100, 101, 102], max_new_tokens=40))
        whole = (await gateway.ended_answer(key, 20)).text
        stop = whole[6:9]
        sampling = SamplingParams(temperature=0, stop=[stop])
        (key,) = await gateway.start(
            spec(prompt=[100, 101, 102], max_new_tokens=40, sampling=sampling)
        )
        answer = await gateway.ended_answer(key, 20)
        assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_STOP
        assert answer.text == whole[: whole.index(stop)]
        assert answer.terminal.usage.completion_tokens == len(answer.token_ids) < 40
        keys = await gateway.start(
            *(spec(prompt=[90 + n] * 50, max_new_tokens=400) for n in range(8))
        )
        await gateway.until(lambda: all(gateway.answer(key).token_ids for key in keys), 20)
        await asyncio.gather(*(gateway.abort(key) for key in keys))
        for key in keys:
            answer = await gateway.ended_answer(key, 20)
            assert answer.terminal.usage.completion_tokens == len(answer.token_ids)
            assert answer.terminal.usage.prompt_tokens == 50
        await llama.kv_is_free()
