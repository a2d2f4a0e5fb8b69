"""Requests go to the worker that holds what they begin with: of a tenant, of a session."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

from tests.e2e.deployment import Deployment
from tests.e2e.wait import until
from tests.late import late_import
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1.inference_service_pb2 import (
    ChatInput,
    ChatMessage,
    Finished,
    GenerateRequest,
    GenerateResponse,
)
from weir.scheduler.v1.scheduler_service_pb2 import WorkerView

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = late_import("anthropic")

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="session")]

# Some 150 tokens of the null model's bytes.
SYSTEM = "You are a helpful assistant who answers in one short sentence. " * 3


async def test_the_second_request_goes_where_the_system_prompt_is(pair: Deployment) -> None:
    first = await _ask(pair, "acme", "0")
    assert first.cached_prompt_tokens == 0
    for number in range(1, 8):
        await _rest(pair)
        usage = await _ask(pair, "acme", str(number))
        # By lot it would be elsewhere half of the time.
        assert usage.cached_prompt_tokens >= 128, f"request {number}"
    assert (await _ask(pair, "globex", "0")).cached_prompt_tokens == 0


async def test_no_door_tells_of_what_another_tenant_has_cached(pair: Deployment) -> None:
    """Each asks the same; only who has asked before is told of cached tokens, at every door."""
    system = f"Answer as at the doors. {SYSTEM}"
    mine = await _at_every_door(pair, "acme", system)
    await _rest(pair)
    again = await _at_every_door(pair, "acme", system)
    theirs = await _at_every_door(pair, "globex", system)
    assert mine[0] == theirs[0] == 0
    assert min(again) >= 128
    assert min(mine[1:]) == min(theirs[1:]) >= 128, "from their own first request"


async def test_the_turns_of_a_session_stay_where_its_kv_is(pair: Deployment) -> None:
    headers = {"authorization": f"Bearer {pair.secret('acme')}"}
    async with httpx2.AsyncClient(base_url=pair.base_url, headers=headers, timeout=60) as http:
        made = (await http.post("/sessions", json={"model": pair.model})).json()
        homes, cached, prompts = set(), [], []
        text = "This is the user's own text, which nobody else's cache may hold. " * 2
        for turn in range(6):
            text += f"And this is what turn {turn} adds to it, some sixty tokens more. "
            finished = await _say(pair, text, session_id=made["id"])
            homes.add(finished.lifecycle.worker_id)
            cached.append(finished.usage.cached_prompt_tokens)
            prompts.append(finished.usage.prompt_tokens)
            await _rest(pair)
        assert len(homes) == 1
        # Every whole block of 16 that the turn before had computed of the common text.
        assert cached[0] == 0
        for at in range(1, 6):
            assert cached[at] > prompts[at - 1] - 16, f"turn {at}: {cached}, {prompts}"
        alone = await _say(pair, text)
        assert alone.usage.cached_prompt_tokens == 0, "no other request finds it"
        assert await _pinned(pair) > 0
        deleted = await http.delete(f"/sessions/{made['id']}")
        assert deleted.json()["deleted"] is True
        await until(lambda: _pinned(pair), lambda blocks: blocks == 0, "its worker to give it up")
        refused = await http.post(
            "/chat/completions",
            json={
                "model": pair.model,
                "messages": [{"role": "user", "content": "x"}],
                "session_id": made["id"],
            },
        )
        assert refused.json()["error"]["code"] == "session_not_found"


async def test_a_prefix_is_cached_before_anybody_asks(pair: Deployment) -> None:
    headers = {"authorization": f"Bearer {pair.secret('acme')}"}
    async with httpx2.AsyncClient(base_url=pair.base_url, headers=headers, timeout=60) as http:
        system = f"Rules that are computed beforehand. {SYSTEM}"
        messages = [{"role": "system", "content": system}]
        body = {"messages": messages, "models": [pair.model], "keep_cold": True}
        assert (await http.put("/prefixes/rules", json=body)).status_code == 200
        warmed = (await http.post("/prefixes/rules/warm")).json()["data"]
        assert len({one["worker_id"] for one in warmed}) == 2, "on both workers"
        answer = await http.post(
            "/chat/completions",
            json={
                "model": pair.model,
                "messages": [{"role": "user", "content": "the first to ask"}],
                "max_tokens": 2,
                "prefix": "rules",
            },
        )
        usage = answer.json()["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= 128


async def test_a_session_outlives_its_worker(pair: Deployment) -> None:
    """Its KV is gone with the worker: the next turn is computed anew elsewhere, and is the same."""
    label, prompt = "outlives", "A conversation that goes on whatever becomes of its worker. " * 4
    first = await _turn(pair, prompt, label)
    await _rest(pair)
    again = await _turn(pair, prompt, label)
    assert again.finished.lifecycle.worker_id == first.finished.lifecycle.worker_id
    assert again.finished.usage.cached_prompt_tokens >= len(prompt) - 16
    home = first.finished.lifecycle.worker_id
    name = next(name for name in ("worker-1", "worker-2") if home.startswith(name))
    os.kill(pair.stack.pids[name], signal.SIGKILL)
    moved = await _turn(pair, prompt, label)
    assert moved.finished.lifecycle.worker_id != home
    assert moved.finished.usage.cached_prompt_tokens == 0
    assert (moved.text, moved.session_id) == (first.text, first.session_id)
    await _rest(pair)
    settled = await _turn(pair, prompt, label)
    assert settled.finished.lifecycle.worker_id == moved.finished.lifecycle.worker_id
    assert settled.finished.usage.cached_prompt_tokens >= len(prompt) - 16


@dataclass(frozen=True)
class Turn:
    session_id: str
    text: str
    finished: Finished


async def _turn(stack: Deployment, prompt: str, label: str) -> Turn:
    request = GenerateRequest(
        model=stack.model,
        prompt=prompt,
        max_new_tokens=8,
        conversation_id=label,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
    )
    async with stack.inference() as inference:
        call = inference.Generate(request, metadata=stack.metadata("acme"), timeout=60)
        events: list[GenerateResponse] = [event async for event in call]
    text = "".join(event.delta.text for event in events)
    return Turn(events[0].accepted.session_id, text, events[-1].finished)


async def _rest(stack: Deployment) -> None:
    """Until nothing runs, and every worker has told since what it holds."""
    since = time.time()
    await until(stack.workers, lambda views: all(not v.running_attempts for v in views), "idle")
    await until(stack.queued, lambda queued: not queued, "the queue")

    def told(views: Sequence[WorkerView]) -> bool:
        ready = [view for view in views if view.state == "ready"]
        return all(view.last_report_time.ToMicroseconds() / 1e6 >= since for view in ready)

    await until(stack.workers, told, "a report of each worker")


async def _pinned(stack: Deployment) -> int:
    """Blocks that sessions alone keep."""
    return sum(load.pinned_kv_blocks for load in (await stack.loads()).values())


async def _at_every_door(stack: Deployment, tenant: str, system: str) -> list[int]:
    """Cached tokens as OpenAI's, Anthropic's and the native door tell them."""
    secret, url = stack.secret(tenant), stack.base_url
    question = {"role": "user", "content": "?"}
    async with openai.AsyncOpenAI(base_url=url, api_key=secret, max_retries=0) as client:
        messages: Any = [{"role": "system", "content": system}, question]
        chat = await client.chat.completions.create(
            model=stack.model, messages=messages, max_tokens=1
        )
        assert chat.usage is not None
        assert chat.usage.prompt_tokens_details is not None
        first = chat.usage.prompt_tokens_details.cached_tokens or 0
    await _rest(stack)
    root = url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=root, api_key=secret, max_retries=0) as other:
        asked: Any = [question]
        message = await other.messages.create(
            model=stack.model, system=system, messages=asked, max_tokens=1
        )
        second = message.usage.cache_read_input_tokens or 0
    await _rest(stack)
    third = await _ask(stack, tenant, "?", system)
    await _rest(stack)
    return [first, second, third.cached_prompt_tokens]


async def _ask(stack: Deployment, tenant: str, text: str, system: str = SYSTEM) -> Usage:
    request = GenerateRequest(
        model=stack.model,
        chat=ChatInput(
            messages=[
                ChatMessage(role="system", content=system),
                ChatMessage(role="user", content=text),
            ]
        ),
        max_new_tokens=4,
        sampling=SamplingParams(temperature=0.0),
    )
    return (await _finished(stack, tenant, request)).usage


async def _say(stack: Deployment, prompt: str, session_id: str = "") -> Finished:
    request = GenerateRequest(
        model=stack.model, prompt=prompt, max_new_tokens=4, session_id=session_id
    )
    return await _finished(stack, "acme", request)


async def _finished(stack: Deployment, tenant: str, request: GenerateRequest) -> Finished:
    async with stack.inference() as inference:
        call = inference.Generate(request, metadata=stack.metadata(tenant), timeout=60)
        events: list[GenerateResponse] = [event async for event in call]
    return events[-1].finished
