"""OpenAI's SDK for Python, unmodified: asynchronous, and blocking in a thread beside."""

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from tests.contract.site import (
    ASK,
    CITY_SCHEMA,
    CITY_TEXT,
    FAILURES,
    TOOLS,
    TURNS,
    TURNS_PROMPT,
    WAIT_S,
    Failure,
    Site,
    budget,
    in_thread,
    token_limit,
)
from tests.gateway.harness import MODEL, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLASSES: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    413: openai.APIStatusError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    503: openai.InternalServerError,
}


class City(BaseModel):
    """What the model is to say."""

    city: str
    degrees: int


def client_of(site: Site, key: str = "own", **options: Any) -> openai.AsyncOpenAI:
    options = {"max_retries": 0, "timeout": 20.0} | options
    return openai.AsyncOpenAI(base_url=site.base_url, api_key=site.secret(key), **options)


def blocking(site: Site, **options: Any) -> openai.OpenAI:
    options = {"max_retries": 0, "timeout": 20.0} | options
    return openai.OpenAI(base_url=site.base_url, api_key=site.secret(), **options)


async def test_a_chat_whole(site: Site) -> None:
    site.plays("Mild", ", 21 °C")
    async with client_of(site) as client:
        answer = await client.chat.completions.create(model="small", messages=ASK)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (
        "Mild, 21 °C",
        "stop",
    )
    assert answer.model == MODEL
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 2
    assert answer._request_id
    assert answer._request_id.startswith("req_")


async def test_a_chat_streamed(site: Site) -> None:
    site.plays("Mi", "ld", " 😀", step_s=0.005)
    async with client_of(site) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Mild 😀"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3


async def test_the_sdks_own_stream_helper(site: Site) -> None:
    site.plays(*CITY_TEXT, step_s=0.001)
    async with (
        client_of(site) as client,
        client.chat.completions.stream(model=MODEL, messages=ASK, response_format=City) as stream,
    ):
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    assert final.choices[0].message.parsed == City(city="Paris", degrees=21)


async def test_the_blocking_client_does_the_same(site: Site) -> None:
    site.plays("Mi", "ld")

    def talk() -> tuple[str | None, str]:
        with blocking(site) as client:
            whole = client.chat.completions.create(model=MODEL, messages=ASK)
            stream = client.chat.completions.create(model=MODEL, messages=ASK, stream=True)
            text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
        return whole.choices[0].message.content, text

    assert await in_thread(talk) == ("Mild", "Mild")


async def test_completions(site: Site) -> None:
    site.plays(" upon", " a time")
    async with client_of(site) as client:
        whole = await client.completions.create(model=MODEL, prompt="Once", max_tokens=9)
        stream = await client.completions.create(
            model=MODEL, prompt="Once", max_tokens=9, stream=True
        )
        text = "".join([chunk.choices[0].text async for chunk in stream if chunk.choices])
    assert whole.choices[0].text == text == " upon a time"
    assert site.prompt == "Once"


async def test_models_are_listed(site: Site) -> None:
    async with client_of(site) as client:
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve(MODEL)
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("org/secret")
    assert listed == [MODEL]
    assert one.object == "model"

    def names() -> list[str]:
        with blocking(site) as client:
            return [model.id for model in client.models.list()]

    assert await in_thread(names) == [MODEL]


async def test_calls_of_tools(site: Site) -> None:
    site.plays_a_call()
    async with client_of(site) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS)
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls or []
    assert call.type == "function"
    assert (choice.finish_reason, call.function.name) == ("tool_calls", "weather")
    assert json.loads(call.function.arguments) == {"city": "Paris"}


async def test_calls_of_tools_streamed(site: Site) -> None:
    site.plays_a_call(step_s=0.002)
    async with client_of(site) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=ASK, tools=TOOLS, stream=True
        )
        chunks = [chunk.choices[0] async for chunk in stream]
    parts = [part for chunk in chunks for part in chunk.delta.tool_calls or []]
    assert [part.function.name for part in parts if part.id and part.function] == ["weather"]
    told = [part.function.arguments or "" for part in parts if part.function]
    assert len([part for part in told if part]) > 1
    assert json.loads("".join(told)) == {"city": "Paris"}
    assert chunks[-1].finish_reason == "tool_calls"


async def test_the_result_of_a_tool(site: Site) -> None:
    site.plays("21 degrees.")
    async with client_of(site) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=TURNS)
    assert answer.choices[0].message.content == "21 degrees."
    assert site.prompt == TURNS_PROMPT


async def test_a_schema_binds_the_answer(site: Site) -> None:
    site.plays(*CITY_TEXT)
    async with client_of(site) as client:
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=ASK,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": CITY_SCHEMA, "strict": True},
            },
        )
        assert json.loads(site.last.grammar.json_schema) == CITY_SCHEMA
        parsed = await client.chat.completions.parse(
            model=MODEL, messages=ASK, response_format=City
        )
    assert json.loads(answer.choices[0].message.content or "") == json.loads(CITY_TEXT)
    assert parsed.choices[0].message.parsed == City(city="Paris", degrees=21)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_failures_are_the_sdks_own_classes(
    site: Site, failure: Failure, stream: Literal[True, False]
) -> None:
    site.fails(failure)
    async with client_of(site, failure.key) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(
                model=failure.model,
                messages=failure.messages,
                max_tokens=failure.max_tokens,
                stream=stream,
            )
    error = caught.value
    assert type(error) is CLASSES[failure.status]
    assert error.status_code == failure.status
    assert error.code
    assert error.request_id
    assert error.message
    assert site.secret("own") not in str(error)


async def test_a_failure_names_its_field(site: Site) -> None:
    async with client_of(site) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model=MODEL, messages=ASK, temperature=7)
    assert (caught.value.param, caught.value.type) == ("temperature", "invalid_request_error")


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_limit_is_waited_for_as_long_as_the_server_says(site: Site, kind: str) -> None:
    site.plays("at last")
    site.refuses(token_limit(WAIT_S))
    if kind == "async":
        async with client_of(site, max_retries=2) as client:
            answer = await client.chat.completions.create(model=MODEL, messages=ASK)
    else:
        with blocking(site, max_retries=2) as sync:
            answer = await in_thread(
                lambda: sync.chat.completions.create(model=MODEL, messages=ASK)
            )
    assert answer.choices[0].message.content == "at last"
    (wait,) = site.waits
    assert wait >= WAIT_S


async def test_retries_end_with_the_refusal(site: Site) -> None:
    site.refuses(token_limit(0.01), times=99)
    async with client_of(site, max_retries=2) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model=MODEL, messages=ASK)
    assert len(site.arrivals) == 3
    assert caught.value.response.headers["retry-after-ms"] == "10"
    assert caught.value.body
    assert caught.value.body["limit_id"] == "tenant:acme/tpm"  # type: ignore[index]


async def test_an_exhausted_budget_is_not_tried_again(site: Site) -> None:
    site.refuses(budget(3_600), times=99)
    async with client_of(site, max_retries=5) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model=MODEL, messages=ASK)
    assert len(site.arrivals) == 1
    assert caught.value.code == "insufficient_quota"


async def test_a_timeout_ends_the_work(site: Site) -> None:
    site.plays("never", pause_after=0)
    async with client_of(site, timeout=2) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(model=MODEL, messages=ASK)
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_is_left_ends_the_work(site: Site) -> None:
    site.plays("a", "b", "c", pause_after=2)
    async with client_of(site) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=ASK, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_breaks_is_no_whole_answer(site: Site) -> None:
    site.breaks("half", " an")
    texts: list[str] = []
    async with client_of(site) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=ASK, stream=True)
        with pytest.raises(openai.APIError, match="as the test wants"):
            texts.extend([chunk.choices[0].delta.content or "" async for chunk in stream])


async def test_headers_tell_the_limits(site: Site) -> None:
    async with client_of(site) as client:
        raw = await client.chat.completions.with_raw_response.create(model=MODEL, messages=ASK)
    assert raw.headers["x-ratelimit-remaining-tokens"] == "9000"
    assert raw.parse().choices[0].message.content
