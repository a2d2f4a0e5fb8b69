"""Calls of tools through the HTTP door, with OpenAI's own SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import openai
import orjson
import pytest
import pytest_asyncio

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway
from tests.gateway.tool_site import CALL, WEATHER, prompt_of, tool_gateway
from weir.common.v1.sampling_pb2 import FinishReason
from weir_gateway.intake.output_format import MAX_GRAMMAR_CHARACTERS
from weir_gateway.tools.call_schema import call_schema

pytestmark = pytest.mark.asyncio(loop_scope="module")
STOP = FinishReason.FINISH_REASON_STOP
USER: Any = [{"role": "user", "content": "Weather in Paris?"}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "Of a city.", "parameters": WEATHER},
    },
    {"type": "function", "function": {"name": "now"}},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with tool_gateway(tmp_path_factory.mktemp("tools")) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(site: Gateway) -> AsyncIterator[Gateway]:
    site.reset()
    yield site
    await site.at_rest()


async def test_calls_of_a_whole_answer(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Let me see. ", *CALL], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, tools=TOOLS, max_tokens=120
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    (call,) = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    assert call.id.startswith("call_")
    prompt = prompt_of(gateway)
    assert '"name": "weather", "description": "Of a city."' in prompt
    assert not gateway.worker.specs[0].HasField("grammar")


async def test_calls_of_a_stream(gateway: Gateway) -> None:
    # One at a time: what comes together is told together.
    gateway.worker.script = Script(pieces=[*CALL, *CALL], finish=STOP, step_s=0.005)
    stream = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, tools=TOOLS, max_tokens=200, stream=True
    )
    chunks = [chunk.choices[0] async for chunk in stream]
    assert chunks[-1].finish_reason == "tool_calls"
    assert not any(chunk.delta.content for chunk in chunks)
    parts = [part for chunk in chunks for part in chunk.delta.tool_calls or []]
    begun = [part for part in parts if part.id]
    assert [(part.index, part.function and part.function.name) for part in begun] == [
        (0, "weather"),
        (1, "weather"),
    ]
    assert begun[0].id != begun[1].id
    for index in (0, 1):
        of_call = [part for part in parts if part.index == index]
        # The name first, alone; then the arguments in more than one part.
        assert of_call[0].function is not None
        assert of_call[0].function.arguments == ""
        fragments = [part.function.arguments or "" for part in of_call[1:] if part.function]
        assert len(fragments) > 1
        assert json.loads("".join(fragments)) == {"city": "Paris"}


async def test_the_results_of_calls_come_back_in_the_prompt(gateway: Gateway) -> None:
    arguments = '{"city": "Paris"}'
    call = {"id": "call_1", "type": "function"}
    messages: Any = [
        *USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call, "function": {"name": "weather", "arguments": arguments}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"},
    ]
    gateway.worker.script = Script(pieces=["Mild."], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=messages, tools=TOOLS, max_tokens=20
    )
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Mild.", "stop")
    prompt = prompt_of(gateway)
    assert '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>' in prompt
    assert "tool: 21 degrees" in prompt


@pytest.mark.parametrize(
    ("choice", "parallel", "allowed", "refused"),
    [
        ("required", True, [[("now", {})], [("weather", {"city": "x"}), ("now", {})]], [[]]),
        ("required", False, [[("now", {})]], [[("now", {}), ("now", {})]]),
        (
            {"type": "function", "function": {"name": "weather"}},
            True,
            [[("weather", {"city": "x"})]],
            [[("now", {})], [("weather", {})], [("weather", {"city": "x"})] * 2],
        ),
    ],
)
async def test_a_call_that_must_be_is_bound(
    gateway: Gateway, choice: Any, parallel: bool, allowed: Any, refused: Any
) -> None:
    text = '[{"name": "weather", "arguments": {"city": "Paris"}}]'
    gateway.worker.script = Script(pieces=[*text], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL,
        messages=USER,
        tools=TOOLS,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_tokens=120,
    )
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Paris"}')
    assert answer.choices[0].message.content is None
    assert answer.choices[0].finish_reason == "tool_calls"
    schema = json.loads(gateway.worker.specs[0].grammar.json_schema)

    def fits(calls: Any) -> bool:
        value = [{"name": name, "arguments": arguments} for name, arguments in calls]
        return bool(jsonschema.Draft202012Validator(schema).is_valid(value))

    assert all(map(fits, allowed))
    assert not any(map(fits, refused))


async def test_no_tool_is_told_of_with_none(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=[*CALL], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, tools=TOOLS, tool_choice="none", max_tokens=120
    )
    assert answer.choices[0].message.content == CALL
    assert "Tools:" not in prompt_of(gateway)


async def test_an_answer_cut_within_a_call_says_so(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=[*CALL])
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, tools=TOOLS, max_tokens=55
    )
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert '{"city": "Paris"}'.startswith(call.function.arguments)
    assert answer.choices[0].finish_reason == "length"


async def test_a_broken_call_is_text(gateway: Gateway) -> None:
    text = '<tool_call>{"name": "weather", "arguments": 3}</tool_call>'
    gateway.worker.script = Script(pieces=[*text], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, tools=TOOLS, max_tokens=120
    )
    assert answer.choices[0].message.content == text
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"


async def test_strict_calls_of_a_free_answer_are_bound_from_tag_to_tag(gateway: Gateway) -> None:
    tools: Any = [
        {"type": "function", "function": TOOLS[0]["function"] | {"strict": True}},
        TOOLS[1],
    ]
    gateway.worker.script = Script(pieces=["Well. ", *CALL], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, tools=tools, max_tokens=120
    )
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Well.")
    told = json.loads(gateway.worker.specs[-1].grammar.tagged_json)
    assert (told["begin"], told["end"]) == ("<tool_call>", "</tool_call>")
    jsonschema.validate({"name": "weather", "arguments": {"city": "Paris"}}, told["schema"])
    jsonschema.validate({"name": "now", "arguments": {"any": 1}}, told["schema"])
    for arguments in ({}, {"city": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"name": "weather", "arguments": arguments}, told["schema"])
    assert "strict" not in prompt_of(gateway)


async def test_strict_schemas_that_only_their_tags_make_too_long_are_refused_at_the_door(
    gateway: Gateway,
) -> None:
    def tool(letters: int) -> dict[str, Any]:
        parameters = {"type": "object", "properties": {"x": {"const": "a" * letters}}}
        return {"name": "f", "parameters": parameters}

    empty = len(orjson.dumps(call_schema([{"function": tool(0)}])))
    body = {
        "model": MODEL,
        "messages": USER,
        "tools": [
            {
                "type": "function",
                "function": tool(MAX_GRAMMAR_CHARACTERS - empty) | {"strict": True},
            }
        ],
    }
    response = await gateway.http.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "tools")
    assert not gateway.worker.specs


def _function(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f"} | fields}]}


def _calls(**function: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "f"} | function}
    return {"messages": [*USER, {"role": "assistant", "tool_calls": [call]}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": "x"}, "tools"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": TOOLS * 65}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        (_function(name="a b"), "tools[0].function.name"),
        (_function(parameters=[]), "tools[0].function.parameters"),
        (_function(description="\ud800"), "tools[0].function.parameters"),
        (_function(strict=1), "tools[0].function.strict"),
        (_function(nonsense=1), "tools[0].function.nonsense"),
        ({"tool_choice": "required"}, "tool_choice"),
        (_function() | {"tool_choice": "any"}, "tool_choice"),
        (
            _function() | {"tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
        ),
        (_function() | {"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
        (_function() | {"parallel_tool_calls": 1}, "parallel_tool_calls"),
        (_function() | {"response_format": {"type": "json_object"}}, "response_format"),
        (_function() | {"logprobs": True}, "logprobs"),
        ({"functions": [{"name": "f"}]}, "functions"),
        (_calls(arguments="{"), "messages[1].tool_calls[0].function.arguments"),
        (_calls(arguments='"x"'), "messages[1].tool_calls[0].function.arguments"),
        (_calls(more=1), "messages[1].tool_calls[0].function.more"),
        (_function() | {"model": "plain"}, "tools"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    gateway: Gateway, fields: dict[str, Any], param: str
) -> None:
    body = {"model": MODEL, "messages": USER} | fields
    response = await gateway.http.post(
        "/v1/chat/completions",
        content=json.dumps(body),
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert not gateway.worker.specs


async def test_the_sdk_parses_arguments_into_its_types(gateway: Gateway) -> None:
    """`pydantic_function_tool` sends strict schemas with `$defs`; a named tool takes them."""
    from pydantic import BaseModel

    class Place(BaseModel):
        city: str

    class Weather(BaseModel):
        place: Place

    text = '[{"name": "Weather", "arguments": {"place": {"city": "Paris"}}}]'
    gateway.worker.script = Script(pieces=[*text], finish=STOP)
    answer = await gateway.openai().chat.completions.parse(
        model=MODEL,
        messages=USER,
        tools=[openai.pydantic_function_tool(Weather)],
        tool_choice="required",
        max_tokens=120,
    )
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.function.parsed_arguments == Weather(place=Place(city="Paris"))
