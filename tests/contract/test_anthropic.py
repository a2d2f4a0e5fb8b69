"""Anthropic's SDK, unmodified, against the Messages API."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.site import (
    FAILURES,
    TURNS_PROMPT,
    WAIT_S,
    Failure,
    Site,
    budget,
    in_thread,
    token_limit,
)
from tests.gateway.harness import MODEL, eventually
from tests.gateway.tool_site import WEATHER
from tests.late import late_import

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = late_import("anthropic")

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER: Any = [{"role": "user", "content": "Weather in Paris?"}]
ASK: dict[str, Any] = {"model": MODEL, "messages": USER, "max_tokens": 200}
TOOLS: Any = [{"name": "weather", "description": "Of a city.", "input_schema": WEATHER}]
TURNS: Any = [
    *USER,
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "21 degrees"}],
    },
]
CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    413: "RequestTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


def client_of(site: Site, key: str = "own", **options: Any) -> "anthropic.AsyncAnthropic":
    options = {"max_retries": 0, "timeout": 20.0} | options
    return anthropic.AsyncAnthropic(base_url=site.root, api_key=site.secret(key), **options)


def blocking(site: Site, **options: Any) -> "anthropic.Anthropic":
    options = {"max_retries": 0, "timeout": 20.0} | options
    return anthropic.Anthropic(base_url=site.root, api_key=site.secret(), **options)


async def test_a_message_whole(site: Site) -> None:
    site.plays("Mild", ", 21 °C")
    async with client_of(site) as client:
        message = await client.messages.create(**ASK)
    assert [block.text for block in message.content if block.type == "text"] == ["Mild, 21 °C"]
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 2)
    assert message._request_id


async def test_a_message_streamed(site: Site) -> None:
    site.plays("Mi", "ld", " 😀", step_s=0.005)
    async with client_of(site) as client, client.messages.stream(**ASK) as stream:
        text = "".join([part async for part in stream.text_stream])
        final = await stream.get_final_message()
    assert text == "Mild 😀"
    assert final.usage.output_tokens == 3


async def test_the_blocking_client_does_the_same(site: Site) -> None:
    site.plays("Mi", "ld")

    def talk() -> tuple[str, str]:
        with blocking(site) as client:
            message = client.messages.create(**ASK)
            with client.messages.stream(**ASK) as stream:
                text = "".join(stream.text_stream)
        whole = "".join(block.text for block in message.content if block.type == "text")
        return whole, text

    assert await in_thread(talk) == ("Mild", "Mild")


async def test_uses_of_tools(site: Site) -> None:
    site.plays_a_call()
    async with client_of(site) as client:
        message = await client.messages.create(**ASK, tools=TOOLS)
    (use,) = [block for block in message.content if block.type == "tool_use"]
    assert (message.stop_reason, use.name, use.input) == ("tool_use", "weather", {"city": "Paris"})


async def test_uses_of_tools_streamed(site: Site) -> None:
    site.plays_a_call(step_s=0.002)
    async with client_of(site) as client, client.messages.stream(**ASK, tools=TOOLS) as stream:
        parts = [event.partial_json async for event in stream if event.type == "input_json"]
        final = await stream.get_final_message()
    assert len([part for part in parts if part]) > 1
    (use,) = [block for block in final.content if block.type == "tool_use"]
    assert use.input == {"city": "Paris"}


async def test_the_result_of_a_tool(site: Site) -> None:
    site.plays("21 degrees.")
    async with client_of(site) as client:
        await client.messages.create(model=MODEL, messages=TURNS, max_tokens=20)
    assert site.prompt == TURNS_PROMPT


async def test_tokens_are_counted(site: Site) -> None:
    async with client_of(site) as client:
        counted = await client.messages.count_tokens(model=MODEL, messages=USER)
        message = await client.messages.create(**ASK)
    assert counted.input_tokens == message.usage.input_tokens


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_failures_are_the_sdks_own_classes(
    site: Site, failure: Failure, stream: bool
) -> None:
    site.fails(failure)
    async with client_of(site, failure.key) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(
                model=failure.model,
                messages=failure.messages,
                max_tokens=failure.max_tokens,
                stream=stream,
            )
    assert type(caught.value) is getattr(anthropic, CLASSES[failure.status])
    assert caught.value.status_code == failure.status
    assert caught.value.request_id


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_limit_is_waited_for_as_long_as_the_server_says(site: Site, kind: str) -> None:
    site.plays("at last")
    site.refuses(token_limit(WAIT_S))
    if kind == "async":
        async with client_of(site, max_retries=2) as client:
            await client.messages.create(**ASK)
    else:
        with blocking(site, max_retries=2) as sync:
            await in_thread(lambda: sync.messages.create(**ASK))
    (wait,) = site.waits
    assert wait >= WAIT_S


async def test_an_exhausted_budget_is_not_tried_again(site: Site) -> None:
    site.refuses(budget(3_600), times=99)
    async with client_of(site, max_retries=5) as client:
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**ASK)
    assert len(site.arrivals) == 1


async def test_a_timeout_ends_the_work(site: Site) -> None:
    site.plays("never", pause_after=0)
    async with client_of(site, timeout=2) as client:
        with pytest.raises(anthropic.APITimeoutError):
            await client.messages.create(**ASK)
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_is_left_ends_the_work(site: Site) -> None:
    site.plays("a", "b", "c", pause_after=2)
    async with client_of(site) as client:
        stream = await client.messages.create(**ASK, stream=True)
        async for event in stream:
            if event.type == "content_block_delta":
                break
        await stream.close()
        await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_breaks_is_no_whole_answer(site: Site) -> None:
    site.breaks("half", " an")
    async with client_of(site) as client:
        stream = await client.messages.create(**ASK, stream=True)
        with pytest.raises(anthropic.APIStatusError, match="as the test wants"):
            async for _ in stream:
                pass
