"""The `openai` SDK, unmodified, against the default model behind the whole stack."""

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

ASK: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]


def _client(stack: Deployment) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=stack.base_url, api_key=stack.secret("acme"), max_retries=0)


async def test_chat_streamed_is_the_chat_that_is_not(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        whole = await client.chat.completions.create(
            model=smollm2.model, messages=ASK, max_tokens=24, temperature=0
        )
        stream = await client.chat.completions.create(
            model=smollm2.model,
            messages=ASK,
            max_tokens=24,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert "Paris" in text
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert chunks[-1].choices == []
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]


async def test_completions_streamed_and_not(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        whole = await client.completions.create(
            model=smollm2.model, prompt="1, 2, 3, 4,", max_tokens=8, temperature=0
        )
        stream = await client.completions.create(
            model=smollm2.model, prompt="1, 2, 3, 4,", max_tokens=8, temperature=0, stream=True
        )
        text = "".join([chunk.choices[0].text async for chunk in stream if chunk.choices])
    assert text == whole.choices[0].text
    assert " 5" in text
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8


async def test_a_seed_makes_a_sampled_answer_repeat(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:

        async def text(seed: int) -> str | None:
            answer = await client.chat.completions.create(
                model=smollm2.model, messages=ASK, max_tokens=16, temperature=1.0, seed=seed
            )
            return answer.choices[0].message.content

        first, again, other = await text(7), await text(7), await text(8)
    assert first == again
    assert first != other


async def test_nothing_of_a_stop_string_is_shown(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        answer = await client.chat.completions.create(
            model=smollm2.model, messages=ASK, max_tokens=24, temperature=0, stop=["Paris"]
        )
    assert answer.choices[0].finish_reason == "stop"
    assert "Par" not in (answer.choices[0].message.content or "")


async def test_models_are_listed(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        models = [model.id async for model in client.models.list()]
        one = await client.models.retrieve(smollm2.model)
    assert smollm2.model in models
    assert one.id == smollm2.model


async def test_errors_are_typed(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        with pytest.raises(openai.NotFoundError, match="no-such-model"):
            await client.chat.completions.create(model="no-such-model", messages=ASK)
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model=smollm2.model, messages=ASK, max_tokens=-1)
    assert caught.value.param == "max_tokens"
    async with openai.AsyncOpenAI(
        base_url=smollm2.base_url, api_key="wrong", max_retries=0
    ) as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(model=smollm2.model, messages=ASK)


async def test_a_second_turn_reuses_the_system_prompt_of_its_own_tenant_alone(
    smollm2: Deployment,
) -> None:
    system: ChatCompletionMessageParam = {"role": "system", "content": "You count. " * 40}

    async def cached(tenant: str, question: str) -> int:
        async with openai.AsyncOpenAI(
            base_url=smollm2.base_url, api_key=smollm2.secret(tenant), max_retries=0
        ) as client:
            answer = await client.chat.completions.create(
                model=smollm2.model,
                messages=[system, {"role": "user", "content": question}],
                max_tokens=1,
            )
            assert answer.usage is not None
            details = answer.usage.prompt_tokens_details
            return (details.cached_tokens or 0) if details else 0

    assert await cached("acme", "one?") == 0
    assert await cached("acme", "two?") >= 64
    assert await cached("globex", "one?") == 0


async def test_a_call_that_must_be_is_made(smollm2: Deployment) -> None:
    """Bound by the schema of the tool, which refers into itself."""
    small = {"type": "integer", "minimum": 0, "maximum": 9}
    place = {"$defs": {"n": small}, "type": "object", "additionalProperties": False}
    place |= {"properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"]}
    tools: Any = [{"type": "function", "function": {"name": "go", "parameters": place}}]
    ask: dict[str, Any] = {"messages": ASK, "max_tokens": 100, "temperature": 0}
    ask |= {"tools": tools, "tool_choice": {"type": "function", "function": {"name": "go"}}}
    async with _client(smollm2) as client:
        whole = await client.chat.completions.create(model=smollm2.model, **ask)
        stream = await client.chat.completions.create(model=smollm2.model, stream=True, **ask)
        chunks = [chunk.choices[0] async for chunk in stream]
    assert whole.choices[0].finish_reason == chunks[-1].finish_reason == "tool_calls"
    (call,) = whole.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "go"
    assert json.loads(call.function.arguments)["x"] in range(10)
    parts = [part.function for chunk in chunks for part in chunk.delta.tool_calls or []]
    assert "".join(p.name or "" for p in parts if p) == "go"
    assert "".join(p.arguments or "" for p in parts if p) == call.function.arguments


async def test_a_conversation_of_responses_and_one_in_the_background(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        ask: Any = {"model": smollm2.model, "max_output_tokens": 24, "temperature": 0}
        first = await client.responses.create(input="What is the capital of France?", **ask)
        assert "Paris" in first.output_text
        second = await client.responses.create(
            input="Say it again.", previous_response_id=first.id, **ask
        )
        assert second.usage is not None
        assert first.usage is not None
        assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
        stream = await client.responses.create(
            input="What is the capital of France?", background=True, stream=True, **ask
        )
        events: list[Any] = [event async for event in stream]
        assert events[-1].response.output_text == first.output_text
        response_id = events[0].response.id
        again = await client.responses.retrieve(response_id, stream=True, starting_after=2)
        assert [event async for event in again] == events[3:]


async def test_embeddings_of_texts_alike_are_near(smollm2: Deployment) -> None:
    texts = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "SELECT id FROM orders;"]
    async with _client(smollm2) as client:
        together = await client.embeddings.create(model=smollm2.model, input=texts)
        alone = await client.embeddings.create(model=smollm2.model, input=texts[1])
    cat, kitten, query = (entry.embedding for entry in together.data)
    assert len(cat) == 576

    def dot(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert dot(cat, kitten) > dot(cat, query) + 0.02
    assert dot(kitten, alone.data[0].embedding) > 0.9999
    assert alone.usage.prompt_tokens < together.usage.prompt_tokens
