"""langchain-openai, unmodified."""

from typing import TYPE_CHECKING, Any

import openai
import pytest
from pydantic import BaseModel, SecretStr

from tests.contract.site import (
    CITY_TEXT,
    FAILURES,
    TURNS_PROMPT,
    WAIT_S,
    Failure,
    Site,
    budget,
    in_thread,
    token_limit,
)
from tests.contract.test_openai import CLASSES
from tests.gateway.harness import MODEL, eventually
from tests.late import late_import

if TYPE_CHECKING:
    import langchain_openai
    from langchain_core import messages
else:
    langchain_openai = late_import("langchain_openai")
    messages = late_import("langchain_core.messages")

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "Weather in Paris?"


class City(BaseModel):
    """What the model is to say."""

    city: str
    degrees: int


def weather(city: str) -> str:
    """Of a city."""
    return f"21 degrees in {city}"


def chat_of(site: Site, key: str = "own", **options: Any) -> "langchain_openai.ChatOpenAI":
    defaults: dict[str, Any] = {"max_retries": 0, "timeout": 20.0, "model": MODEL}
    defaults |= {"base_url": site.base_url, "api_key": site.secret(key)}
    return langchain_openai.ChatOpenAI(**(defaults | options))


async def test_a_chat_whole(site: Site) -> None:
    site.plays("Mild", ", 21 °C")
    answer = await chat_of(site).ainvoke(QUESTION)
    assert answer.content == "Mild, 21 °C"
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 2


async def test_a_chat_streamed(site: Site) -> None:
    site.plays("Mi", "ld", " 😀", step_s=0.005)
    whole = None
    async for chunk in chat_of(site, stream_usage=True).astream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    assert whole.content == "Mild 😀"
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] == 3


async def test_the_blocking_calls_do_the_same(site: Site) -> None:
    site.plays("Mi", "ld")

    def talk() -> tuple[object, str]:
        chat = chat_of(site)
        parts = [str(chunk.content) for chunk in chat.stream(QUESTION)]
        return chat.invoke(QUESTION).content, "".join(parts)

    assert await in_thread(talk) == ("Mild", "Mild")


async def test_completions(site: Site) -> None:
    site.plays(" upon", " a time")
    key = SecretStr(site.secret())
    llm = langchain_openai.OpenAI(base_url=site.base_url, api_key=key, model=MODEL, max_tokens=9)
    assert await llm.ainvoke("Once") == " upon a time"


async def test_calls_of_tools_and_their_result(site: Site) -> None:
    site.plays_a_call()
    chat = chat_of(site).bind_tools([weather])
    answer = await chat.ainvoke(QUESTION)
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Paris"})
    site.plays("21 degrees.")
    said = messages.AIMessage("", tool_calls=[call])
    await chat_of(site).ainvoke(
        [
            messages.HumanMessage(QUESTION),
            said,
            messages.ToolMessage("21 degrees", tool_call_id=call["id"]),
        ]
    )
    assert site.prompt == TURNS_PROMPT


async def test_calls_of_tools_streamed(site: Site) -> None:
    site.plays_a_call(step_s=0.002)
    whole: Any = None
    parts = []
    async for chunk in chat_of(site).bind_tools([weather]).astream(QUESTION):
        whole = chunk if whole is None else whole + chunk
        parts += chunk.tool_call_chunks  # type: ignore[attr-defined]
    assert len(parts) > 1
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [
        ("weather", {"city": "Paris"})
    ]


async def test_a_tool_that_must_be_called(site: Site) -> None:
    site.plays('[{"name": "weather", "arguments": {"city": "Paris"}}]')
    chat = chat_of(site).bind_tools([weather], tool_choice="weather")
    answer = await chat.ainvoke(QUESTION)
    assert site.last.HasField("grammar")
    assert [call["args"] for call in answer.tool_calls] == [{"city": "Paris"}]


async def test_a_schema_binds_the_answer(site: Site) -> None:
    site.plays(*CITY_TEXT)
    chat = chat_of(site).with_structured_output(City, method="json_schema")
    assert await chat.ainvoke(QUESTION) == City(city="Paris", degrees=21)
    assert site.last.HasField("grammar")


@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_failures_are_the_sdks_own_classes(site: Site, failure: Failure) -> None:
    site.fails(failure)
    chat = chat_of(site, failure.key, model=failure.model, max_tokens=failure.max_tokens)
    with pytest.raises(openai.APIStatusError) as caught:
        await chat.ainvoke(failure.content)
    assert isinstance(caught.value, CLASSES[failure.status])
    assert caught.value.status_code == failure.status


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_limit_is_waited_for_as_long_as_the_server_says(site: Site, kind: str) -> None:
    site.plays("at last")
    site.refuses(token_limit(WAIT_S))
    chat = chat_of(site, max_retries=2)
    if kind == "async":
        answer = await chat.ainvoke(QUESTION)
    else:
        answer = await in_thread(lambda: chat.invoke(QUESTION))
    assert answer.content == "at last"
    (wait,) = site.waits
    assert wait >= WAIT_S


async def test_an_exhausted_budget_is_not_tried_again(site: Site) -> None:
    site.refuses(budget(3_600), times=99)
    with pytest.raises(openai.RateLimitError):
        await chat_of(site, max_retries=5).ainvoke(QUESTION)
    assert len(site.arrivals) == 1


async def test_a_timeout_ends_the_work(site: Site) -> None:
    site.plays("never", pause_after=0)
    with pytest.raises(openai.APITimeoutError):
        await chat_of(site, timeout=2).ainvoke(QUESTION)
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_is_left_ends_the_work(site: Site) -> None:
    site.plays("a", "b", "c", pause_after=2)
    stream = chat_of(site).astream(QUESTION)
    async for chunk in stream:
        if chunk.content:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_breaks_is_no_whole_answer(site: Site) -> None:
    site.breaks("half", " an")
    with pytest.raises(openai.APIError, match="as the test wants"):
        async for _ in chat_of(site).astream(QUESTION):
            pass
