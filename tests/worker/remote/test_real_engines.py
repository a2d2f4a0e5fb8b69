"""A worker process in front of engines of others: vLLM over HTTP and gRPC, llama-cpp-python.

Only on demand, with what `make peers` installs: `make test ARGS="-m peers"`. Each engine is
started once, for all tests of it; the last one kills it.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from tokenizers import Tokenizer

from tests.default_model import default_model_folder
from tests.worker.remote.real_engines import (
    ENGINES,
    MODEL,
    QUEUED,
    RunningEngine,
    running_engine,
)
from tests.worker.server.support import SECRET, spec
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome, TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.common.v1.usage_pb2 import UsageQuality
from weir.worker.v1.worker_service_pb2 import AbortRequest, GenerateRequest, GenerationSpec
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_core.model_folder import ModelFolder
from weir_core.rpc.channel import open_channel

if TYPE_CHECKING:
    from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceAsyncStub

pytestmark = [pytest.mark.peers, pytest.mark.model, pytest.mark.timeout(900)]

_ANSWER_S = 240.0
_COUNTING = "Count: one, two, three, four, five, six,"
_CHAT = "<|im_start|>user\nSay OK.<|im_end|>\n<|im_start|>assistant\n"


@cache
def tokenizer() -> Tokenizer:
    return ModelFolder(default_model_folder()).load_tokenizer()


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningEngine]:
    with running_engine(request.param, tmp_path_factory.mktemp("engine")) as running:
        yield running


@dataclass(slots=True)
class Answer:
    """What a worker said to one start."""

    token_ids: list[int]
    text: str
    deltas: int
    terminal: TerminalRecord

    @property
    def reason(self) -> str:
        return ErrorReason.Name(self.terminal.error_reason).removeprefix("ERROR_REASON_")


class RemoteWorker:
    """A worker process."""

    def __init__(self, process: asyncio.subprocess.Process, stub: "WorkerServiceAsyncStub") -> None:
        self.process = process
        self.stub = stub

    async def answer(self, wanted: GenerationSpec, begun: asyncio.Event | None = None) -> Answer:
        token_ids: list[int] = []
        text, deltas = "", 0
        async for response in self.stub.Generate(GenerateRequest(spec=wanted), timeout=_ANSWER_S):
            if response.HasField("terminal"):
                return Answer(token_ids, text, deltas, response.terminal)
            deltas += 1
            token_ids += response.delta.token_ids
            text += response.delta.text
            if begun is not None:
                begun.set()
        raise AssertionError("no terminal")


@asynccontextmanager
async def worker_process(engine: RunningEngine, *more: str) -> AsyncIterator[RemoteWorker]:
    arguments = (
        "--model-name=test-model", "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
        f"--model={default_model_folder()}", f"--upstream-url={engine.url}",
        f"--upstream-model={MODEL}", "--upstream-check-s=0.5", *engine.engine.settings, *more,
    )  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "weir_worker", *arguments,
        stdout=PIPE, stderr=DEVNULL, env={**os.environ, "WEIR_CLUSTER_TOKEN": SECRET},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_ANSWER_S):
            ready = json.loads(await process.stdout.readline())
        channel = open_channel(ready["grpc"], name="worker", token=SecretStr(SECRET))
        try:
            yield RemoteWorker(process, WorkerServiceStub(channel))
        finally:
            await channel.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def asking(text: str, max_new_tokens: int, stop: list[str] | None = None) -> GenerationSpec:
    ids = tokenizer().encode(text, add_special_tokens=False).ids
    sampling = SamplingParams(temperature=0, stop=stop or [])
    return spec(prompt=ids, max_new_tokens=max_new_tokens, sampling=sampling)


async def test_an_answer_streams_and_is_counted(engine: RunningEngine) -> None:
    async with worker_process(engine) as worker:
        wanted = asking(_COUNTING, 12)
        answer = await worker.answer(wanted)

    terminal = answer.terminal
    assert terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH, answer.reason
    assert " seven" in answer.text
    assert answer.deltas > 1
    assert tokenizer().decode(answer.token_ids) == answer.text
    assert terminal.usage.prompt_tokens == len(wanted.prompt_token_ids)
    assert len(answer.token_ids) == terminal.usage.completion_tokens == 12
    told = engine.engine.counts
    assert terminal.usage_quality == (
        UsageQuality.USAGE_QUALITY_EXACT if told else UsageQuality.USAGE_QUALITY_ESTIMATED
    )


async def test_a_stop_string_and_the_end_of_the_answer_end_it(engine: RunningEngine) -> None:
    async with worker_process(engine) as worker:
        stopped = await worker.answer(asking(_COUNTING, 40, stop=[" nine"]))
        ended = await worker.answer(asking(_CHAT, 200))

    assert stopped.terminal.finish_reason == FinishReason.FINISH_REASON_STOP
    assert " eight" in stopped.text
    assert "nine" not in stopped.text
    assert ended.terminal.finish_reason == FinishReason.FINISH_REASON_STOP
    assert "<|im_end|>" not in ended.text
    assert ended.text
    assert ended.terminal.usage.completion_tokens == len(ended.token_ids)


async def test_an_abort_in_the_stream_gives_the_place_back(engine: RunningEngine) -> None:
    async with worker_process(engine) as worker:
        # As many as it has places, so that the next one needs one of them.
        wanted = [asking(_COUNTING, 1_500) for _ in range(engine.engine.slots)]
        running = [await begin(worker, each) for each in wanted]
        for each in wanted:
            abort = AbortRequest(attempt=each.attempt, cause=Outcome.OUTCOME_CANCELLED)
            await worker.stub.Abort(abort, timeout=10)
        aborted = await asyncio.gather(*running)
        after = await answer_when_there_is_room(worker)

    for answer in aborted:
        assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert 0 < answer.terminal.usage.completion_tokens < 1_500
        assert answer.terminal.usage_quality == UsageQuality.USAGE_QUALITY_ESTIMATED
    assert after.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH


async def test_one_more_than_it_takes_is_refused_as_busy(engine: RunningEngine) -> None:
    if not engine.engine.refusal:
        pytest.skip("this engine queues without a bound")
    async with worker_process(engine) as worker:
        # Its own count of what it holds is approximate: some more than it admits to take.
        running = [
            asyncio.create_task(worker.answer(asking(_COUNTING, 1_500))) for _ in range(QUEUED + 4)
        ]
        done, pending = await asyncio.wait(
            running, timeout=_ANSWER_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        after = await answer_when_there_is_room(worker)

    assert pending
    refused = [task.result() for task in done]
    assert {answer.reason for answer in refused} == {engine.engine.refusal}
    assert {answer.terminal.usage.completion_tokens for answer in refused} == {0}
    assert after.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH


async def test_a_prompt_beyond_its_context_is_refused(engine: RunningEngine) -> None:
    async with worker_process(engine) as worker:
        ids = tokenizer().encode(_COUNTING, add_special_tokens=False).ids
        long_prompt = spec(prompt=(ids * 300)[:2_100], max_new_tokens=4)
        refused = await worker.answer(long_prompt)
        good = await worker.answer(asking(_COUNTING, 2))

    assert refused.reason == engine.engine.too_long, refused.terminal.error_message
    assert "Count" not in refused.terminal.error_message
    assert good.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH


async def test_its_death_ends_what_runs_and_then_the_worker(engine: RunningEngine) -> None:
    async with worker_process(engine) as worker:
        running = await begin(worker, asking(_COUNTING, 1_500))
        engine.die()
        answer = await running
        status = await asyncio.wait_for(worker.process.wait(), 60)

    # A reason that lets the gateway try another worker as long as nothing was streamed.
    assert answer.reason == "WORKER_LOST"
    assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_ERROR
    assert answer.terminal.usage.completion_tokens == len(answer.token_ids)
    assert status == 1


async def begin(worker: RemoteWorker, wanted: GenerationSpec) -> asyncio.Task[Answer]:
    """Start one, and return once it has streamed something."""
    begun = asyncio.Event()
    running = asyncio.create_task(worker.answer(wanted, begun))
    waiting = asyncio.create_task(begun.wait())
    done, _ = await asyncio.wait(
        {running, waiting}, timeout=_ANSWER_S, return_when=asyncio.FIRST_COMPLETED
    )
    assert waiting in done, running.result().reason if running in done else "nothing came"
    return running


async def answer_when_there_is_room(worker: RemoteWorker) -> Answer:
    """A short answer; an engine that was told to stop needs a step to do it."""
    async with asyncio.timeout(_ANSWER_S):
        while True:
            answer = await worker.answer(asking(_COUNTING, 2))
            if answer.reason != "QUEUE_FULL":
                return answer
            await asyncio.sleep(0.1)
