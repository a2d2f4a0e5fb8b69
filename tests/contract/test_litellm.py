"""LiteLLM's SDK as a client, unmodified."""

import asyncio
import json
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.contract import page
from tests.contract.batch_lines import ENDED, ENDPOINT, EXPECTED, answers, batch_input
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

# As it maps statuses: those that it knows no class for are an APIError, and 422 is a bad request.
CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "APIError",
    404: "NotFoundError",
    409: "APIError",
    413: "APIError",
    422: "BadRequestError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


@pytest.fixture(scope="module")
def litellm() -> Iterator[Any]:
    """Loaded late: it takes seconds. Its table of prices is that of its wheel, not fetched."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    module: Any = import_module("litellm")
    module.suppress_debug_info = True
    module.telemetry = False
    yield module
    del os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]


def asked(site: Site, key: str = "own", **options: Any) -> dict[str, Any]:
    """Arguments of a call."""
    to = {"api_base": site.base_url, "api_key": site.secret(key)}
    defaults = {"model": f"openai/{MODEL}", "messages": ASK, "timeout": 20.0, "max_retries": 0}
    return to | defaults | options


async def test_a_chat_whole(site: Site, litellm: Any) -> None:
    site.plays("Mild", ", 21 °C")
    answer = await litellm.acompletion(**asked(site))
    assert answer.choices[0].message.content == "Mild, 21 °C"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 2


async def test_a_chat_streamed(site: Site, litellm: Any) -> None:
    site.plays("Mi", "ld", " 😀", step_s=0.005)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = [c async for c in await litellm.acompletion(**asked(site), **options)]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Mild 😀"
    assert chunks[-1].usage.completion_tokens == 3


async def test_the_blocking_calls_do_the_same(site: Site, litellm: Any) -> None:
    site.plays("Mi", "ld")

    def talk() -> tuple[str, str]:
        whole = litellm.completion(**asked(site))
        stream = litellm.completion(**asked(site), stream=True)
        text = "".join(c.choices[0].delta.content or "" for c in stream)
        return whole.choices[0].message.content, text

    assert await in_thread(talk) == ("Mild", "Mild")


async def test_completions(site: Site, litellm: Any) -> None:
    site.plays(" upon", " a time")
    options = asked(site, model=f"text-completion-openai/{MODEL}", prompt="Once", max_tokens=9)
    del options["messages"]
    answer = await litellm.atext_completion(**options)
    assert answer.choices[0].text == " upon a time"


async def test_calls_of_tools(site: Site, litellm: Any) -> None:
    site.plays_a_call()
    answer = await litellm.acompletion(**asked(site), tools=TOOLS)
    (call,) = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "weather",
        {"city": "Paris"},
    )


async def test_calls_of_tools_streamed(site: Site, litellm: Any) -> None:
    site.plays_a_call(step_s=0.002)
    stream = await litellm.acompletion(**asked(site), tools=TOOLS, stream=True)
    chunks = [chunk async for chunk in stream]
    parts = [part for c in chunks for part in c.choices[0].delta.tool_calls or []]
    assert [p.function.name for p in parts if p.function.name] == ["weather"]
    told = "".join(p.function.arguments or "" for p in parts)
    assert json.loads(told) == {"city": "Paris"}
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.tool_calls[0].function.arguments == told


async def test_the_result_of_a_tool(site: Site, litellm: Any) -> None:
    site.plays("21 degrees.")
    await litellm.acompletion(**asked(site, messages=TURNS))
    assert site.prompt == TURNS_PROMPT


async def test_a_schema_binds_the_answer(site: Site, litellm: Any) -> None:
    site.plays(*CITY_TEXT)
    schema = {"name": "city", "schema": CITY_SCHEMA, "strict": True}
    wanted = {"type": "json_schema", "json_schema": schema}
    answer = await litellm.acompletion(**asked(site), response_format=wanted)
    assert json.loads(site.last.grammar.json_schema) == CITY_SCHEMA
    assert answer.choices[0].message.content == CITY_TEXT


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_failures_are_its_own_classes(
    site: Site, litellm: Any, failure: Failure, stream: bool
) -> None:
    site.fails(failure)
    request = asked(
        site,
        failure.key,
        model=f"openai/{failure.model}",
        messages=failure.messages,
        max_tokens=failure.max_tokens,
        stream=stream,
    )
    with pytest.raises(Exception) as caught:
        await litellm.acompletion(**request)
    assert type(caught.value).__name__ == CLASSES[failure.status]
    assert caught.value.status_code == failure.status  # type: ignore[attr-defined]
    assert site.secret("own") not in str(caught.value)


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_limit_is_waited_for_as_long_as_the_server_says(
    site: Site, litellm: Any, kind: str
) -> None:
    site.plays("at last")
    site.refuses(token_limit(WAIT_S))
    request = asked(site, max_retries=2)
    if kind == "async":
        answer = await litellm.acompletion(**request)
    else:
        answer = await in_thread(lambda: litellm.completion(**request))
    assert answer.choices[0].message.content == "at last"
    (wait,) = site.waits
    assert wait >= WAIT_S


async def test_an_exhausted_budget_is_not_tried_again(site: Site, litellm: Any) -> None:
    site.refuses(budget(3_600), times=99)
    with pytest.raises(litellm.RateLimitError):
        await litellm.acompletion(**asked(site, max_retries=5))
    assert len(site.arrivals) == 1


async def test_a_timeout_ends_the_work(site: Site, litellm: Any) -> None:
    site.plays("never", pause_after=0)
    with pytest.raises(litellm.Timeout):
        await litellm.acompletion(**asked(site, timeout=2))
    await eventually(lambda: site.gateway.worker.aborts)


async def test_a_stream_that_breaks_is_no_whole_answer(site: Site, litellm: Any) -> None:
    site.breaks("half", " an")
    stream = await litellm.acompletion(**asked(site), stream=True)
    with pytest.raises(litellm.exceptions.MidStreamFallbackError, match="as the test wants"):
        async for _ in stream:
            pass


async def test_a_batch_by_litellm(site: Site, litellm: Any) -> None:
    site.plays("Mi", "ld")
    to = {"custom_llm_provider": "openai", "api_base": site.base_url, "api_key": site.secret()}
    file = await litellm.acreate_file(file=("in.jsonl", batch_input()), purpose="batch", **to)
    batch = await litellm.acreate_batch(
        input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", **to
    )
    async with asyncio.timeout(60):
        while batch.status not in ENDED:
            await asyncio.sleep(0.1)
            batch = await litellm.aretrieve_batch(batch_id=batch.id, **to)
    assert batch.status == "completed"
    output = await litellm.afile_content(file_id=batch.output_file_id, **to)
    assert answers(output.content) == EXPECTED


async def test_responses_by_litellm(site: Site, litellm: Any) -> None:
    site.plays("Mi", "ld")
    to = {"api_base": site.base_url, "api_key": site.secret(), "max_retries": 0}
    answer = await litellm.aresponses(model=f"openai/{MODEL}", input="hi", **to)
    assert answer.output[0].content[0].text == "Mild"


async def test_the_example_of_its_page(
    site: Site, litellm: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    site.plays("red", ", blue")
    await in_thread(lambda: page.run(site, "LiteLLM"))
    assert "red, blue" in capsys.readouterr().out
