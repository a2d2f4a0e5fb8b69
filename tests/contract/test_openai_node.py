"""OpenAI's SDK for Node, unmodified."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.node_sdk import NodeSdk, SdkError, missing, node_sdk
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
    token_limit,
)
from tests.gateway.harness import MODEL, eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.needs("node"),
    pytest.mark.skipif(bool(missing()), reason=missing() or "all is there"),
]

CHAT: dict[str, Any] = {"model": MODEL, "messages": ASK}
CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    413: "APIError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk() -> AsyncIterator[NodeSdk]:
    async with node_sdk() as running:
        yield running


def client_of(site: Site, key: str = "own", **options: Any) -> dict[str, Any]:
    return {"baseURL": site.base_url, "apiKey": site.secret(key)} | options


async def test_a_chat_whole(site: Site, sdk: NodeSdk) -> None:
    site.plays("Mild", ", 21 °C")
    answer = await sdk.ask("chat", client_of(site), request=CHAT)
    assert answer["choices"][0]["message"]["content"] == "Mild, 21 °C"
    assert answer["usage"]["completion_tokens"] == 2


async def test_a_chat_streamed(site: Site, sdk: NodeSdk) -> None:
    site.plays("Mi", "ld", " 😀", step_s=0.005)
    request = CHAT | {"stream": True, "stream_options": {"include_usage": True}}
    chunks = await sdk.ask("stream", client_of(site), request=request)
    texts = [c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]]
    assert "".join(texts) == "Mild 😀"
    assert chunks[-1]["usage"]["completion_tokens"] == 3


async def test_completions(site: Site, sdk: NodeSdk) -> None:
    site.plays(" upon", " a time")
    request = {"model": MODEL, "prompt": "Once", "max_tokens": 9}
    answer = await sdk.ask("completion", client_of(site), request=request)
    assert answer["choices"][0]["text"] == " upon a time"


async def test_models_are_listed(site: Site, sdk: NodeSdk) -> None:
    assert [m["id"] for m in await sdk.ask("models", client_of(site))] == [MODEL]
    assert (await sdk.ask("model", client_of(site), name=MODEL))["id"] == MODEL
    with pytest.raises(SdkError, match="NotFoundError"):
        await sdk.ask("model", client_of(site), name="org/secret")


async def test_calls_of_tools_and_their_result(site: Site, sdk: NodeSdk) -> None:
    site.plays_a_call()
    answer = await sdk.ask("chat", client_of(site), request=CHAT | {"tools": TOOLS})
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    site.plays("21 degrees.")
    await sdk.ask("chat", client_of(site), request=CHAT | {"messages": TURNS})
    assert site.prompt == TURNS_PROMPT


async def test_calls_of_tools_streamed(site: Site, sdk: NodeSdk) -> None:
    site.plays_a_call(step_s=0.002)
    request = CHAT | {"tools": TOOLS, "stream": True}
    chunks = await sdk.ask("stream", client_of(site), request=request)
    parts = [p for c in chunks for p in c["choices"][0]["delta"].get("tool_calls") or []]
    assert [p["function"]["name"] for p in parts if p["function"].get("name")] == ["weather"]
    told = "".join(p["function"].get("arguments") or "" for p in parts)
    assert json.loads(told) == {"city": "Paris"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_schema_binds_the_answer(site: Site, sdk: NodeSdk) -> None:
    site.plays(*CITY_TEXT)
    schema = {"name": "city", "schema": CITY_SCHEMA, "strict": True}
    wanted = {"response_format": {"type": "json_schema", "json_schema": schema}}
    answer = await sdk.ask("parse", client_of(site), request=CHAT | wanted)
    assert json.loads(site.last.grammar.json_schema) == CITY_SCHEMA
    assert answer["choices"][0]["message"]["parsed"] == json.loads(CITY_TEXT)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_failures_are_the_sdks_own_classes(
    site: Site, sdk: NodeSdk, failure: Failure, stream: bool
) -> None:
    site.fails(failure)
    request = {
        "model": failure.model,
        "messages": failure.messages,
        "max_tokens": failure.max_tokens,
        "stream": stream,
    }
    deed = "stream" if stream else "chat"
    with pytest.raises(SdkError) as caught:
        await sdk.ask(deed, client_of(site, failure.key), request=request)
    told = caught.value.told
    assert (told["class"], told["status"]) == (CLASSES[failure.status], failure.status)
    assert told["code"]
    assert told["requestID"]


async def test_a_limit_is_waited_for_as_long_as_the_server_says(site: Site, sdk: NodeSdk) -> None:
    site.plays("at last")
    site.refuses(token_limit(WAIT_S))
    answer = await sdk.ask("chat", client_of(site, maxRetries=2), request=CHAT)
    assert answer["choices"][0]["message"]["content"] == "at last"
    (wait,) = site.waits
    assert wait >= WAIT_S


async def test_an_exhausted_budget_is_not_tried_again(site: Site, sdk: NodeSdk) -> None:
    site.refuses(budget(3_600), times=99)
    with pytest.raises(SdkError, match="RateLimitError"):
        await sdk.ask("chat", client_of(site, maxRetries=5), request=CHAT)
    assert len(site.arrivals) == 1


async def test_a_timeout_ends_the_work(site: Site, sdk: NodeSdk) -> None:
    site.plays("never", pause_after=0)
    with pytest.raises(SdkError, match="APIConnectionTimeoutError"):
        await sdk.ask("chat", client_of(site, timeout=300), request=CHAT)
    await eventually(lambda: site.gateway.worker.aborts)


async def test_an_abort_ends_the_work(site: Site, sdk: NodeSdk) -> None:
    site.plays("never", pause_after=0)
    with pytest.raises(SdkError, match="APIUserAbortError"):
        await sdk.ask("abort", client_of(site), request=CHAT, after_ms=300)
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_is_left_ends_the_work(site: Site, sdk: NodeSdk) -> None:
    site.plays("a", "b", "c", pause_after=2)
    assert await sdk.ask("leave", client_of(site), request=CHAT | {"stream": True})
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_breaks_is_no_whole_answer(site: Site, sdk: NodeSdk) -> None:
    site.breaks("half", " an")
    with pytest.raises(SdkError, match="as the test wants"):
        await sdk.ask("stream", client_of(site), request=CHAT | {"stream": True})


async def test_headers_tell_the_limits(site: Site, sdk: NodeSdk) -> None:
    told = await sdk.ask("headers", client_of(site), request=CHAT)
    assert told["headers"]["x-ratelimit-remaining-tokens"] == "9000"
    assert told["request_id"] == told["headers"]["x-request-id"]
