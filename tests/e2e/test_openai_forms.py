"""Log-probabilities, several answers, echo and formats: the `openai` SDK on the default model."""

import asyncio
import json
import math
from typing import Any

import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

ASK: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "member": {"type": "boolean"},
    },
    "required": ["name", "age", "member"],
    "additionalProperties": False,
}


def _client(stack: Deployment) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=stack.base_url, api_key=stack.secret("acme"), max_retries=0)


async def test_chat_logprobs_are_the_tokens_of_the_text(smollm2: Deployment) -> None:
    ask: Any = [{"role": "user", "content": "Repeat: 你好 😀 café"}]
    async with _client(smollm2) as client:
        answer = await client.chat.completions.create(
            model=smollm2.model,
            messages=ask,
            max_tokens=24,
            temperature=0,
            logprobs=True,
            top_logprobs=3,
            logit_bias={"2": -100},
        )
    choice = answer.choices[0]
    assert choice.logprobs is not None
    told = choice.logprobs.content or []
    data = bytes(byte for entry in told for byte in entry.bytes or [])
    assert data.decode(errors="replace") == choice.message.content
    for entry in told:
        assert entry.logprob <= 0
        # Greedy, without penalties: the drawn token is the likeliest.
        assert entry.top_logprobs[0].logprob == entry.logprob
        assert entry.top_logprobs[0].bytes == entry.bytes
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1.001


async def test_answers_of_one_prompt(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:

        async def texts(n: int, seed: int) -> list[str | None]:
            answer = await client.chat.completions.create(
                model=smollm2.model,
                messages=ASK,
                max_tokens=12,
                temperature=1.0,
                seed=seed,
                n=n,
                frequency_penalty=0.5,
                logprobs=True,
            )
            assert answer.usage is not None
            assert answer.usage.completion_tokens <= 12 * n
            assert answer.usage.total_tokens == (
                answer.usage.prompt_tokens + answer.usage.completion_tokens
            )
            return [choice.message.content for choice in answer.choices]

        three, *alone = await asyncio.gather(texts(3, 5), texts(1, 5), texts(1, 6), texts(1, 7))
        assert three == [text for (text,) in alone]
        stream = await client.chat.completions.create(
            model=smollm2.model,
            messages=ASK,
            max_tokens=12,
            temperature=1.0,
            seed=5,
            n=3,
            frequency_penalty=0.5,
            stream=True,
        )
        streamed = ["", "", ""]
        async for chunk in stream:
            for choice in chunk.choices:
                streamed[choice.index] += choice.delta.content or ""
    assert streamed == three


async def test_a_prompt_is_scored(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        sums: list[float] = []
        for end in (" Paris", " banana"):
            answer = await client.completions.create(
                model=smollm2.model,
                prompt=f"The capital of France is{end}",
                max_tokens=1,
                echo=True,
                logprobs=1,
                temperature=0,
            )
            told = answer.choices[0].logprobs
            assert told is not None
            assert told.tokens is not None
            assert told.token_logprobs is not None
            assert answer.choices[0].text.startswith(f"The capital of France is{end}")
            assert "".join(told.tokens) == answer.choices[0].text
            assert told.token_logprobs[:1] == [None]
            prompt_tokens = answer.usage.prompt_tokens if answer.usage else 0
            sums.append(sum(told.token_logprobs[1:prompt_tokens]))
            assert len(told.tokens) == prompt_tokens + 1
    assert sums[0] > sums[1] + 3


async def test_a_schema_is_met_and_the_text_is_the_same_among_others(smollm2: Deployment) -> None:
    ask: Any = [{"role": "user", "content": "Describe Alice, 30, a member, as JSON."}]
    form: Any = {
        "type": "json_schema",
        "json_schema": {"name": "person", "schema": PERSON, "strict": True},
    }
    async with _client(smollm2) as client:

        async def person() -> str:
            answer = await client.chat.completions.create(
                model=smollm2.model,
                messages=ask,
                max_tokens=80,
                temperature=0.8,
                seed=3,
                response_format=form,
            )
            assert answer.choices[0].finish_reason == "stop"
            return answer.choices[0].message.content or ""

        async def free() -> None:
            await client.chat.completions.create(
                model=smollm2.model, messages=ASK, max_tokens=16, temperature=1.0
            )

        alone = await person()
        among, *_ = await asyncio.gather(person(), *(free() for _ in range(3)))
        jsonschema.validate(json.loads(alone), PERSON)
        assert among == alone


async def test_a_schema_that_cannot_be_used_is_told_with_its_place(smollm2: Deployment) -> None:
    schema = {"properties": {"x": {"uniqueItems": True}}}
    bad: Any = {"type": "json_schema", "json_schema": {"name": "bad", "schema": schema}}
    async with _client(smollm2) as client:
        with pytest.raises(openai.BadRequestError, match=r"\$\.properties\.x") as caught:
            await client.chat.completions.create(
                model=smollm2.model,
                messages=ASK,
                max_tokens=8,
                response_format=bad,
            )
    assert caught.value.param == "response_format.json_schema.schema"


async def test_an_expression_chooses_among_words(smollm2: Deployment) -> None:
    async with _client(smollm2) as client:
        choice = await client.completions.create(
            model=smollm2.model,
            prompt="The capital of France is",
            max_tokens=8,
            temperature=0,
            extra_body={"regex": " (London|Paris|Rome)"},
        )
    assert choice.choices[0].text == " Paris"
    assert choice.choices[0].finish_reason == "stop"
