"""A worker whose model runs in another engine, behind the same contract."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.worker.remote.upstream_server import MODEL, UpstreamServer, running_upstream
from tests.worker.remote.vllm_server import VllmServer
from tests.worker.server.support import RunningWorker, eventually, grant_for, running_worker, spec
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome, TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.common.v1.usage_pb2 import UsageQuality
from weir.scheduler.v1.worker_report_pb2 import Batching
from weir.worker.v1.worker_service_pb2 import (
    AbortRequest,
    AttemptDelta,
    GenerateRequest,
    GenerationSpec,
    GetModelInfoRequest,
)
from weir_core.errors.startup import StartupError
from weir_worker.engine.null_folder import ensure_null_model


@pytest.fixture
async def upstream() -> AsyncIterator[UpstreamServer]:
    async with running_upstream() as server:
        yield server


@asynccontextmanager
async def remote_worker(
    upstream: "UpstreamServer | VllmServer", folder: Path, **changes: Any
) -> AsyncIterator[RunningWorker]:
    settings: dict[str, Any] = {
        "model": str(ensure_null_model(folder / "null")),
        "num_blocks": None,
        "upstream_url": upstream.url,
        "upstream_model": MODEL,
        **changes,
    }
    async with running_worker(process=True, **settings) as worker:
        yield worker


async def generate(
    worker: RunningWorker, wanted: GenerationSpec
) -> tuple[list[AttemptDelta], TerminalRecord]:
    grant = grant_for(worker.app.worker_id, wanted)
    deltas, terminal = [], None
    async for response in worker.stub.Generate(
        GenerateRequest(spec=wanted, grant=grant), timeout=20
    ):
        if response.HasField("terminal"):
            terminal = response.terminal
        else:
            deltas.append(response.delta)
    assert terminal is not None
    return deltas, terminal


async def test_the_upstream_computes_what_was_counted_here(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    sampling = SamplingParams(temperature=0.5, top_p=0.9, top_k=7, seed=3, stop=["zz"])
    async with remote_worker(upstream, tmp_path) as worker:
        wanted = spec(prompt=[65, 66, 67, 68, 69], max_new_tokens=5, sampling=sampling)
        deltas, terminal = await generate(worker, wanted)
        info = await worker.stub.GetModelInfo(GetModelInfoRequest(), timeout=5)

    assert "".join(delta.text for delta in deltas) == "abcde"
    assert [i for delta in deltas for i in delta.token_ids] == [97, 98, 99, 100, 101]
    assert terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
    usage = terminal.usage
    assert (usage.prompt_tokens, usage.cached_prompt_tokens, usage.completion_tokens) == (5, 4, 5)
    assert terminal.usage_quality == UsageQuality.USAGE_QUALITY_EXACT
    body = upstream.bodies[0]
    assert body["prompt"] == [65, 66, 67, 68, 69]
    assert (body["model"], body["max_tokens"], body["stop"]) == (MODEL, 5, ["zz"])
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.5, 7, 3)
    assert info.engine == "openai"
    assert info.registration.batching == Batching.BATCHING_CONTINUOUS
    assert not info.registration.batch_invariant


async def test_tenants_share_nothing_in_the_cache_of_an_engine_that_salts_it(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    async with remote_worker(upstream, tmp_path) as worker:
        for tenant in ("acme", "globex", "acme"):
            await generate(worker, spec(tenant=tenant, max_new_tokens=2))

    acme, globex, again = (body["cache_salt"] for body in upstream.bodies)
    assert acme == again != globex
    assert "acme" not in acme


async def test_text_is_tokenised_here_where_the_upstream_tells_no_ids(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    upstream.tells_ids = upstream.tells_usage = False
    async with remote_worker(upstream, tmp_path) as worker:
        deltas, terminal = await generate(worker, spec(prompt=3, max_new_tokens=4))

    assert [i for delta in deltas for i in delta.token_ids] == [97, 98, 99, 100]
    assert (terminal.usage.prompt_tokens, terminal.usage.completion_tokens) == (3, 4)
    assert terminal.usage_quality == UsageQuality.USAGE_QUALITY_ESTIMATED


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10**12, "completion_tokens": 2},
        {"prompt_tokens": 3, "completion_tokens": 10**12},
        {"prompt_tokens": 3, "completion_tokens": 2**70},
        {"prompt_tokens": -3, "completion_tokens": -2},
    ],
)
async def test_nobody_is_charged_what_cannot_be(
    upstream: UpstreamServer, tmp_path: Path, usage: dict[str, int]
) -> None:
    choice = {"index": 0, "text": "ab", "token_ids": [97, 98], "finish_reason": "stop"}
    upstream.script = [f"data: {json.dumps({'choices': [choice], 'usage': usage})}\n\n"]
    async with remote_worker(upstream, tmp_path) as worker:
        _, terminal = await generate(worker, spec(prompt=3, max_new_tokens=4))

    assert terminal.finish_reason == FinishReason.FINISH_REASON_STOP
    assert (terminal.usage.prompt_tokens, terminal.usage.completion_tokens) == (3, 2)
    assert terminal.usage_quality == UsageQuality.USAGE_QUALITY_ESTIMATED


async def test_a_refusal_without_end_is_left(upstream: UpstreamServer, tmp_path: Path) -> None:
    upstream.status, upstream.script, upstream.endless = 500, ["no " * 1000], True
    async with remote_worker(upstream, tmp_path) as worker:
        _, terminal = await generate(worker, spec(prompt=3, max_new_tokens=4))

    assert terminal.finish_reason == FinishReason.FINISH_REASON_ERROR
    assert "answered HTTP 500" in terminal.error_message


async def test_nothing_follows_the_end(upstream: UpstreamServer, tmp_path: Path) -> None:
    end = {"text": "a", "token_ids": [97], "finish_reason": "stop"}
    more = {"text": "bb", "token_ids": [98, 98], "finish_reason": "length"}
    upstream.script = [f"data: {json.dumps({'choices': [part]})}\n\n" for part in (end, more)]
    async with remote_worker(upstream, tmp_path) as worker:
        deltas, terminal = await generate(worker, spec(prompt=3, max_new_tokens=4))

    assert "".join(delta.text for delta in deltas) == "a"
    assert terminal.finish_reason == FinishReason.FINISH_REASON_STOP
    assert terminal.usage.completion_tokens == 1


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ('data: {"choices": [{"text": "a", "token_ids": [97]}]}\n\n', "more than the 4 tokens"),
        ('data: {"choices": [{"text": "aaaa", "token_ids": []}]}\n\n', "more than the 4 tokens"),
        ('data: {"choices": [{"text": "a", "token_ids": [-1]}]}\n\n', "no token id"),
        (f'data: {{"choices": [{{"token_ids": [{2**70}]}}]}}\n\n', "no token id"),
        ("a" * 65536, "endless line"),
    ],
)
async def test_an_upstream_without_end_or_sense_is_left(
    upstream: UpstreamServer, tmp_path: Path, part: str, problem: str
) -> None:
    upstream.script, upstream.endless = [part], True
    async with remote_worker(upstream, tmp_path) as worker:
        _, terminal = await generate(worker, spec(prompt=3, max_new_tokens=4))
        upstream.script, upstream.endless = [], False
        _, after = await generate(worker, spec(prompt=3, max_new_tokens=4))

    assert terminal.finish_reason == FinishReason.FINISH_REASON_ERROR
    assert problem in terminal.error_message
    assert terminal.usage.completion_tokens <= 4
    assert after.finish_reason == FinishReason.FINISH_REASON_LENGTH


async def test_an_abort_closes_the_connection_and_is_charged_as_received(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    upstream.hold.clear()
    async with remote_worker(upstream, tmp_path) as worker:
        wanted = spec(prompt=6, max_new_tokens=50)
        running = asyncio.create_task(generate(worker, wanted))
        await eventually(lambda: worker.worker.engine.load.held_blocks > 0)
        request = AbortRequest(attempt=wanted.attempt, cause=Outcome.OUTCOME_CANCELLED)
        ended = await worker.stub.Abort(request, timeout=5)
        _, terminal = await running
        await eventually(lambda: upstream.closed_early == 1 and upstream.open == 0)
        await worker.kv_is_free()

    assert ended.terminal == terminal
    assert terminal.finish_reason == FinishReason.FINISH_REASON_ABORT
    assert (terminal.usage.prompt_tokens, terminal.usage.completion_tokens) == (6, 1)
    assert terminal.usage_quality == UsageQuality.USAGE_QUALITY_ESTIMATED


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (429, "", ErrorReason.ERROR_REASON_QUEUE_FULL),
        (503, "", ErrorReason.ERROR_REASON_QUEUE_FULL),
        (401, "secret detail", ErrorReason.ERROR_REASON_ENGINE_FAILED),
        (400, "maximum context length is 10", ErrorReason.ERROR_REASON_CONTEXT_LENGTH_EXCEEDED),
        (500, "their prompt was XYZ", ErrorReason.ERROR_REASON_ENGINE_FAILED),
    ],
)
async def test_a_refusal_ends_the_attempt_and_leaks_nothing(
    upstream: UpstreamServer, tmp_path: Path, status: int, said: str, reason: int
) -> None:
    upstream.status, upstream.said = status, said
    async with remote_worker(upstream, tmp_path) as worker:
        _, terminal = await generate(worker, spec())
        upstream.status = 200
        _, good = await generate(worker, spec())

    assert terminal.finish_reason == FinishReason.FINISH_REASON_ERROR
    assert terminal.error_reason == reason
    assert said not in terminal.error_message or not said
    assert terminal.usage.completion_tokens == 0
    assert good.finish_reason == FinishReason.FINISH_REASON_LENGTH


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        (None, ErrorReason.ERROR_REASON_WORKER_LOST),
        ("content_filter", ErrorReason.ERROR_REASON_ENGINE_FAILED),
    ],
)
async def test_an_end_that_is_none_is_an_error(
    upstream: UpstreamServer, tmp_path: Path, finish: str | None, reason: int
) -> None:
    upstream.finish, upstream.tells_usage = finish, False
    async with remote_worker(upstream, tmp_path) as worker:
        _, terminal = await generate(worker, spec(max_new_tokens=3))

    assert terminal.error_reason == reason
    assert terminal.usage.completion_tokens == 3


async def test_a_silent_upstream_is_given_up(upstream: UpstreamServer, tmp_path: Path) -> None:
    upstream.hold.clear()
    async with remote_worker(upstream, tmp_path, upstream_silence_s=0.3) as worker:
        _, terminal = await generate(worker, spec())

    assert terminal.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST


async def test_no_more_requests_than_allowed_are_sent_at_once(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    upstream.hold.clear()
    async with remote_worker(upstream, tmp_path, max_running=2) as worker:
        running = [asyncio.create_task(generate(worker, spec())) for _ in range(5)]
        await eventually(lambda: worker.worker.engine.load.waiting == 3)
        assert upstream.open == 2
        upstream.hold.set()
        ended = await asyncio.gather(*running)

    assert all(terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH for _, terminal in ended)


@pytest.mark.parametrize(
    ("models", "told"),
    [(["another"], "upstream_model"), (None, "upstream_url")],
)
async def test_a_wrong_upstream_fails_the_start_with_the_knob(
    upstream: UpstreamServer, tmp_path: Path, models: list[str] | None, told: str
) -> None:
    upstream.models = models
    with pytest.raises(StartupError, match=told):
        async with remote_worker(upstream, tmp_path):
            pass


async def test_an_upstream_that_is_away_fails_the_start_with_the_knob(tmp_path: Path) -> None:
    upstream = UpstreamServer()
    upstream.url = "http://127.0.0.1:9/v1"
    with pytest.raises(StartupError, match="upstream_url"):
        async with remote_worker(upstream, tmp_path):
            pass


async def test_a_lost_upstream_ends_the_worker(upstream: UpstreamServer, tmp_path: Path) -> None:
    async with remote_worker(upstream, tmp_path, upstream_check_s=0.05) as worker:
        upstream.models = []
        await eventually(lambda: worker.ends)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await generate(worker, spec())

    assert worker.ends[0][1]
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_the_key_is_sent_and_a_static_engine_declared(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    settings = {"upstream_api_key": "sk-theirs", "upstream_batching": "static"}
    async with remote_worker(upstream, tmp_path, **settings) as worker:
        info = await worker.stub.GetModelInfo(GetModelInfoRequest(), timeout=5)

    assert upstream.authorizations[0] == "Bearer sk-theirs"
    assert info.registration.batching == Batching.BATCHING_STATIC


async def test_several_answers_are_several_requests_there_and_one_here(
    upstream: UpstreamServer, tmp_path: Path
) -> None:
    sampling = SamplingParams(temperature=0.5, seed=3, n=3)
    async with remote_worker(upstream, tmp_path) as worker:
        wanted = spec(prompt=[65, 66, 67, 68, 69], max_new_tokens=5, sampling=sampling)
        deltas, terminal = await generate(worker, wanted)
    assert {delta.choice for delta in deltas} == {0, 1, 2}
    assert [body["seed"] for body in upstream.bodies] == [3, 4, 5]
    assert len(terminal.choices) == 3
    assert terminal.usage.prompt_tokens == 5
    assert terminal.usage.completion_tokens == 15
