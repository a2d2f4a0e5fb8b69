"""`/v1/responses`, judged by OpenAI's own SDK."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.responses import (
    FunctionToolParam,
    Response,
    ResponseFunctionToolCall,
    ResponseInputParam,
    ResponseOutputMessage,
)
from pydantic import BaseModel

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from tests.gateway.test_openai_door import refusal
from tests.gateway.tool_site import CALL, WEATHER, prompt_of
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.errors import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")
STOP = FinishReason.FINISH_REASON_STOP
ERROR = FinishReason.FINISH_REASON_ERROR
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": WEATHER,
    "strict": False,
    "description": "Tells it.",
}


ALLOWED: dict[str, Any] = {"type": "allowed_tools", "mode": "auto"}
JSON_SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "name": "x",
    "schema": {"type": "object"},
}


def message_of(response: Response, at: int = 0) -> ResponseOutputMessage:
    message = response.output[at]
    assert isinstance(message, ResponseOutputMessage)
    return message


async def test_a_whole_response(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Hello", " 😀"], finish=STOP)
    response = await gateway.openai().responses.create(
        model="small",
        input="hi",
        instructions="Be kind.",
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=9,
        metadata={"a": "b"},
        user="someone",
        service_tier="flex",
        truncation="disabled",
        parallel_tool_calls=False,
    )
    assert (response.object, response.status, response.model) == ("response", "completed", MODEL)
    assert response.output_text == "Hello 😀"
    assert message_of(response).status == "completed"
    assert (response.instructions, response.metadata) == ("Be kind.", {"a": "b"})
    assert (response.temperature, response.top_p, response.max_output_tokens) == (0.5, 0.25, 9)
    assert (response.service_tier, response.user) == ("flex", "someone")
    assert (response.parallel_tool_calls, response.background) == (False, False)
    assert response.completed_at is not None
    assert response.usage is not None
    spec = gateway.worker.specs[0]
    assert response.usage.input_tokens == len(spec.prompt_token_ids)
    assert (response.usage.output_tokens, response.usage.total_tokens) == (
        2,
        response.usage.input_tokens + 2,
    )
    assert response.usage.input_tokens_details.cached_tokens == 0
    assert (spec.max_new_tokens, spec.sampling.temperature, spec.sampling.top_p) == (9, 0.5, 0.25)
    assert prompt_of(gateway) == "system: Be kind.\nuser: hi\nassistant: "


async def test_every_event_of_a_text_in_its_order(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Hel", "lo"], finish=STOP)
    stream = await gateway.openai().responses.create(model=MODEL, input="hi", stream=True)
    events: list[Any] = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert [kind for kind in kinds if "delta" not in kind] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(event.delta for event in events if "delta" in event.type) == "Hello"
    assert events[0].response.status == "in_progress"
    assert events[-1].response.output_text == "Hello"
    assert len({event.item_id for event in events if hasattr(event, "item_id")}) == 1
    kept = await gateway.openai().responses.retrieve(events[0].response.id)
    assert kept == events[-1].response


async def test_the_sdks_own_stream_gathers_the_response(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["So: ", *CALL], finish=STOP)
    async with gateway.openai().responses.stream(
        model=MODEL, input="Paris?", tools=[TOOL], max_output_tokens=150
    ) as stream:
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
    assert "response.function_call_arguments.delta" in kinds
    assert (
        kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2
    )
    assert response.output_text.strip() == "So:"
    call = response.output[1]
    assert isinstance(call, ResponseFunctionToolCall)
    assert (call.name, call.arguments) == ("weather", '{"city": "Paris"}')
    assert call.call_id.startswith("call_")


class City(BaseModel):
    name: str


async def test_a_schema_binds_the_text_and_the_sdk_parses_it(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=['{"name":', '"Rome"}'], finish=STOP)
    response = await gateway.openai().responses.parse(
        model=MODEL, input="A city.", text_format=City
    )
    assert response.output_parsed == City(name="Rome")
    assert '"name"' in gateway.worker.specs[0].grammar.json_schema
    assert response.text is not None
    assert response.text.format is not None
    assert response.text.format.type == "json_schema"


async def test_a_conversation_goes_on_from_a_kept_response(gateway: Gateway) -> None:
    client = gateway.openai()
    gateway.worker.script = Script(pieces=[CALL], finish=STOP)
    first = await client.responses.create(
        model=MODEL, input="Paris?", instructions="Old.", tools=[TOOL]
    )
    (call,) = first.output
    assert isinstance(call, ResponseFunctionToolCall)
    gateway.worker.script = Script(pieces=["Sunny."], finish=STOP)
    answer: ResponseInputParam = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    ]
    second = await client.responses.create(
        model=MODEL, input=answer, previous_response_id=first.id, tools=[TOOL], store=True
    )
    told = prompt_of(gateway).split("\n", 1)[1]
    assert told.startswith("user: Paris?\nassistant: <tool_call>{")
    assert told.endswith("\ntool: sun\nassistant: ")
    assert second.previous_response_id == first.id
    await client.responses.create(model=MODEL, input="Why?", previous_response_id=second.id)
    assert prompt_of(gateway).endswith("tool: sun\nassistant: Sunny.\nuser: Why?\nassistant: ")
    # From the second turn on they are turns of one session, whose KV is kept.
    scopes = [spec.private_scope for spec in gateway.worker.specs]
    assert scopes[0] == ""
    assert scopes[1] == scopes[2] != ""
    items = [item async for item in client.responses.input_items.list(second.id, limit=1)]
    assert [item.type for item in items] == ["function_call_output", "function_call", "message"]
    page = await client.responses.input_items.list(second.id, order="asc", limit=2)
    assert [item.type for item in page.data] == ["message", "function_call"]


async def test_the_same_conversation_as_items(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=[CALL], finish=STOP)
    client = gateway.openai()
    first = await client.responses.create(model=MODEL, input="Paris?", tools=[TOOL], store=False)
    (call,) = first.output
    assert isinstance(call, ResponseFunctionToolCall)
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Paris?"}]},
        call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "sun"},
    ]
    counted = await client.responses.input_tokens.count(model=MODEL, input=items, tools=[TOOL])
    await client.responses.create(model=MODEL, input=items, tools=[TOOL])
    assert counted.input_tokens == len(gateway.worker.specs[-1].prompt_token_ids)
    assert '"arguments": {"city": "Paris"}' in prompt_of(gateway)


async def test_nothing_is_kept_of_one_that_shall_not_be(gateway: Gateway) -> None:
    client = gateway.openai()
    response = await client.responses.create(model=MODEL, input="hi", store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)
    kept = await client.responses.create(model=MODEL, input="hi")
    await client.responses.delete(kept.id)
    for call in (
        client.responses.retrieve(kept.id),
        client.responses.delete(kept.id),
        client.responses.create(model=MODEL, input="hi", previous_response_id=kept.id),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            await call
        assert caught.value.code == "response_not_found"


async def test_another_tenant_finds_nothing(gateway: Gateway) -> None:
    kept = await gateway.openai().responses.create(model=MODEL, input="hi")
    other = gateway.openai(api_key=gateway.other_key.secret).responses
    calls: list[Any] = [
        other.retrieve(kept.id),
        other.cancel(kept.id),
        other.delete(kept.id),
        other.input_items.list(kept.id),
        other.create(model=MODEL, input="x", previous_response_id=kept.id),
        other.input_tokens.count(model=MODEL, input="x", previous_response_id=kept.id),
    ]
    for call in calls:
        with pytest.raises(openai.NotFoundError) as caught:
            await call
        assert caught.value.code == "response_not_found"
    assert (await gateway.openai().responses.retrieve(kept.id)).id == kept.id


async def test_one_that_was_cut_by_its_bound_is_incomplete(gateway: Gateway) -> None:
    client = gateway.openai()
    response = await client.responses.create(model=MODEL, input="hi", max_output_tokens=3)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert message_of(response).status == "incomplete"
    stream = await client.responses.create(
        model=MODEL, input="hi", max_output_tokens=3, stream=True
    )
    events: list[Any] = [event async for event in stream]
    assert events[-1].type == "response.incomplete"


async def test_one_that_fails_while_it_streams_says_so_in_its_last_event(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "b"], finish=ERROR, error=Reason.ENGINE_FAILED)
    stream = await gateway.openai().responses.create(model=MODEL, input="hi", stream=True)
    events: list[Any] = [event async for event in stream]
    assert events[-1].type == "response.failed"
    failed = events[-1].response
    assert (failed.status, failed.error.code) == ("failed", "server_error")
    assert failed.output_text == "ab"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_limit_is_a_429_before_anything_is_sent(gateway: Gateway, stream: bool) -> None:
    gateway.limiter.refuse = lambda _: refusal(Reason.TOKEN_LIMIT_EXCEEDED, "tpm")
    with pytest.raises(openai.RateLimitError) as caught:
        await gateway.openai().responses.create(model=MODEL, input="hi", stream=stream)
    assert caught.value.response.headers["retry-after-ms"] == "3250"


async def test_log_probabilities_that_are_included(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["A", "B"], token_ids=[32, 33], finish=STOP)
    client = gateway.openai()
    response = await client.responses.create(
        model=MODEL, input="hi", include=["message.output_text.logprobs"], top_logprobs=2
    )
    part: Any = message_of(response).content[0]
    assert [entry.logprob for entry in part.logprobs] == [-0.5, -0.5]
    assert len(part.logprobs[0].top_logprobs) == 2
    stream = await client.responses.create(
        model=MODEL, input="hi", include=["message.output_text.logprobs"], stream=True
    )
    events: list[Any] = [event async for event in stream]
    told = [entry for event in events if "delta" in event.type for entry in event.logprobs]
    assert [entry.logprob for entry in told] == [-0.5, -0.5]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "tools[0].type"),
        ({"tools": [{"type": "code_interpreter", "container": {}}]}, "tools[0].type"),
        ({"tools": [{"type": "mcp", "server_label": "s"}]}, "tools[0].type"),
        ({"tools": [TOOL | {"strict": 1}]}, "tools[0].strict"),
        ({"tools": [TOOL], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"truncation": "auto"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"include": ["web_search_call.results"]}, "include[0]"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].type",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "["}]},
            "input[0].arguments",
        ),
        ({"background": True, "store": False}, "store"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"a": "\ud800"}}, "metadata"),
        ({"instructions": "\ud800"}, "instructions"),
        ({"input": "\ud800"}, "input"),
        ({"user": "\ud800"}, "user"),
        ({"max_tool_calls": 10**30}, "max_tool_calls"),
        ({"text": {"format": JSON_SCHEMA | {"description": "\ud800"}}}, "text"),
        (
            {"tools": [TOOL], "tool_choice": ALLOWED | {"tools": [TOOL | {"x": "\ud800"}]}},
            "tool_choice",
        ),
        (
            {
                "background": True,
                "input": [{"role": "user", "content": "x", "phase": "\ud800"}],
            },
            "body",
        ),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temprature": 1}, "temprature"),
        ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    gateway: Gateway, fields: dict[str, Any], field: str
) -> None:
    # Lone surrogates cannot be sent as they are.
    content = json.dumps({"model": MODEL, "input": "x"} | fields)
    answer = await gateway.http.post("/v1/responses", content=content)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == field
    assert error["message"].startswith(field)
    assert not gateway.worker.specs


@pytest.mark.parametrize(
    ("choice", "schema"),
    [("required", True), ({"type": "function", "name": "weather"}, True), ("none", False)],
)
async def test_choices_of_tools(gateway: Gateway, choice: Any, schema: bool) -> None:
    await gateway.openai().responses.create(
        model=MODEL, input="x", tools=[TOOL, TOOL | {"name": "other"}], tool_choice=choice
    )
    assert bool(gateway.worker.specs[0].grammar.json_schema) is schema


async def test_allowed_tools_are_those_that_count_as_calls(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=[CALL], finish=STOP)
    allowed: Any = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "other"}],
    }
    response = await gateway.openai().responses.create(
        model=MODEL, input="x", tools=[TOOL, TOOL | {"name": "other"}], tool_choice=allowed
    )
    assert [item.type for item in response.output] == ["message"]
    assert '"weather"' in prompt_of(gateway)


async def test_one_made_in_the_foreground_is_not_cancelled_nor_streamed_again(
    gateway: Gateway,
) -> None:
    client = gateway.openai()
    kept = await client.responses.create(model=MODEL, input="hi")
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.cancel(kept.id)
    assert caught.value.code == "state_conflict"
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.retrieve(kept.id, stream=True)
    assert refused.value.param == "stream"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("responses", {}),
        ("responses", {"stream": True}),
        ("responses", {"background": True}),
        ("embeddings", {}),
    ],
)
async def test_an_idempotency_key_makes_it_once(
    gateway: Gateway, path: str, fields: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": f"{path} {sorted(fields)}"}
    body = {"model": MODEL, "input": "hi"} | fields
    first, again = [
        await gateway.http.post(f"/v1/{path}", json=body, headers=headers) for _ in range(2)
    ]
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert again.headers["idempotent-replayed"] == "true"
    # One in the background may not have begun yet.
    await eventually(lambda: any(worker.specs for worker in gateway.workers))
    await gateway.at_rest()
    assert sum(len(worker.specs) for worker in gateway.workers) == 1


@pytest.mark.parametrize(
    "response_id",
    ["resp_", "resp_%00", "resp_" + "0" * 32, "x" * 5_000, "resp_%F0%9F%98%80", "%2e%2e"],
)
async def test_ids_of_no_response_are_not_found(gateway: Gateway, response_id: str) -> None:
    for suffix in ("", "/input_items"):
        answer = await gateway.http.get(f"/v1/responses/{response_id}{suffix}")
        assert answer.status_code == 404
    body = {"model": MODEL, "input": "x", "previous_response_id": "\x00\ud800"}
    answer = await gateway.http.post("/v1/responses", content=json.dumps(body))
    assert answer.status_code in (400, 404)


async def test_what_was_changed_in_place_of_a_refusal_is_told(gateway: Gateway) -> None:
    document = gateway.document
    policy = document["tenants"][0]["policy"] | {
        "degradations": ["lower_max_new_tokens"],
        "degradation": {"min_new_tokens": 8},
    }
    tenants = [document["tenants"][0] | {"policy": policy}, *document["tenants"][1:]]
    await gateway.reload(document | {"tenants": tenants})
    body = {"model": MODEL, "input": "x" * 1_900, "max_output_tokens": 150}
    try:
        async with asyncio.timeout(20):
            while (answer := await gateway.http.post("/v1/responses", json=body)).is_error:
                await asyncio.sleep(0.05)
    finally:
        await gateway.reload(document)
    assert answer.headers["x-weir-degraded"] == ", ".join(answer.json()["degradations"])
