"""The Messages API, with Anthropic's own SDK."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway
from tests.gateway.tool_site import CALL, WEATHER, prompt_of, tool_gateway
from tests.late import late_import
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.errors import LimitExceeded, Reason, Violation, WeirError

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = late_import("anthropic")

pytestmark = pytest.mark.asyncio(loop_scope="module")
STOP = FinishReason.FINISH_REASON_STOP
USER: Any = [{"role": "user", "content": "Weather in Paris?"}]
TOOLS: Any = [{"name": "weather", "description": "Of a city.", "input_schema": WEATHER}]
ASK: dict[str, Any] = {"model": MODEL, "messages": USER, "max_tokens": 100}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with tool_gateway(tmp_path_factory.mktemp("anthropic")) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(site: Gateway) -> AsyncIterator[Gateway]:
    site.reset()
    yield site
    await site.at_rest()


def client_of(gateway: Gateway, **options: Any) -> "anthropic.AsyncAnthropic":
    defaults: dict[str, Any] = {"api_key": gateway.key.secret, "max_retries": 0, "timeout": 20.0}
    base_url = f"http://{gateway.app.http_address}"
    return anthropic.AsyncAnthropic(base_url=base_url, **(defaults | options))


async def test_a_message_whole(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Mild", ", ", "21 °C."], finish=STOP)
    message = await client_of(gateway).messages.create(
        **ASK,
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        metadata={"user_id": "u"},
        extra_body={"temperature": 0.5, "top_k": 3},
    )
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    assert message.id.startswith("msg_")
    (block,) = message.content
    assert block.type == "text"
    assert block.text == "Mild, 21 °C."
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    spec = gateway.worker.specs[0]
    assert message.usage.input_tokens == len(spec.prompt_token_ids)
    assert message.usage.cache_read_input_tokens == 0
    assert message.usage.output_tokens == 3
    assert (spec.sampling.temperature, spec.sampling.top_k) == (0.5, 3)
    assert prompt_of(gateway) == "system: Be brief.\nuser: Weather in Paris?\nassistant: "


async def test_a_message_streamed_has_its_events_in_order(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Mi", "ld"], finish=STOP)
    stream = await client_of(gateway).messages.create(**ASK, stream=True)
    events = [event async for event in stream]
    kinds = [event.type for event in events]
    deltas = kinds.count("content_block_delta")
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * deltas,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    async with client_of(gateway).messages.stream(**ASK) as helper:
        text = "".join([part async for part in helper.text_stream])
        final = await helper.get_final_message()
    assert text == "Mild"
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens == 2
    assert final.usage.input_tokens == len(gateway.worker.specs[-1].prompt_token_ids)


async def test_calls_of_tools_whole_and_streamed(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Let me see.", *CALL, *CALL], finish=STOP)
    ask = ASK | {"tools": TOOLS, "max_tokens": 200}
    whole = await client_of(gateway).messages.create(**ask)
    async with client_of(gateway).messages.stream(**ask) as stream:
        streamed = await stream.get_final_message()
    for message in (whole, streamed):
        text, first, second = message.content
        assert isinstance(text, anthropic.types.TextBlock)
        assert text.text == "Let me see."
        for call in (first, second):
            assert isinstance(call, anthropic.types.ToolUseBlock)
            assert (call.name, call.input) == ("weather", {"city": "Paris"})
        assert message.stop_reason == "tool_use"
    assert '"name": "weather"' in prompt_of(gateway)


async def test_results_of_tools_come_back_in_the_prompt(gateway: Gateway) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "21 degrees"}
    messages: Any = [
        *USER,
        {"role": "assistant", "content": [{"type": "text", "text": "Wait."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "Well?"}]},
    ]
    gateway.worker.script = Script(pieces=["Mild."], finish=STOP)
    await client_of(gateway).messages.create(**(ASK | {"messages": messages, "tools": TOOLS}))
    prompt = prompt_of(gateway)
    assert 'assistant: Wait.<tool_call>{"name": "weather", "arguments": {"city"' in prompt
    assert prompt.endswith("tool: 21 degrees\nuser: Well?\nassistant: ")


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
async def test_a_call_that_must_be_is_bound(gateway: Gateway, choice: Any) -> None:
    gateway.worker.script = Script(
        pieces=[*'[{"name": "weather", "arguments": {"city": "Paris"}}]'], finish=STOP
    )
    message = await client_of(gateway).messages.create(**ASK, tools=TOOLS, tool_choice=choice)
    (call,) = message.content
    assert call.type == "tool_use"
    assert call.input == {"city": "Paris"}
    assert json.loads(gateway.worker.specs[0].grammar.json_schema)["minItems"] == 1


async def test_the_stop_sequence_that_ended_it_is_told(gateway: Gateway) -> None:
    # The worker keeps the text of a stop string to itself; its tokens are bytes here.
    alphabet = "one END"
    ids = [_token_of(gateway, char) for char in alphabet]
    gateway.worker.script = Script(pieces=[*"one ", "", "", ""], token_ids=ids, finish=STOP)
    message = await client_of(gateway).messages.create(**ASK, stop_sequences=["XX", "END"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    gateway.worker.script = Script(pieces=[*"one "], token_ids=ids[:4], finish=STOP)
    message = await client_of(gateway).messages.create(**ASK, stop_sequences=["XX", "END"])
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    gateway.worker.script = Script()
    message = await client_of(gateway).messages.create(**(ASK | {"max_tokens": 2}))
    assert message.stop_reason == "max_tokens"


def _token_of(gateway: Gateway, char: str) -> int:
    edge = gateway.app.edge
    assert edge is not None
    text = edge.texts.loaded(gateway.document["models"][0]["versions"][0]["folder"])
    assert text is not None
    (token_id,) = text.text_prompt(char, 0, 100).token_ids
    return token_id


async def test_tokens_are_counted_without_a_reservation(gateway: Gateway) -> None:
    counted = await client_of(gateway).messages.count_tokens(
        model=MODEL, messages=USER, tools=TOOLS, system="Be brief."
    )
    gateway.worker.script = Script(pieces=["x"], finish=STOP)
    message = await client_of(gateway).messages.create(**ASK, tools=TOOLS, system="Be brief.")
    assert counted.input_tokens == message.usage.input_tokens
    assert len(gateway.worker.specs) == 1


async def test_errors_are_of_the_sdks_types(gateway: Gateway) -> None:
    with pytest.raises(anthropic.AuthenticationError) as unknown:
        await client_of(gateway, api_key="wrong").messages.create(**ASK)
    assert unknown.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]
    with pytest.raises(anthropic.NotFoundError):
        await client_of(gateway).messages.create(**(ASK | {"model": "none"}))
    with pytest.raises(anthropic.BadRequestError, match="stop_sequences"):
        await client_of(gateway).messages.create(**ASK, stop_sequences=[1])  # type: ignore[list-item]
    violation = Violation(
        limit_id="tenant:acme/tpm",
        limit_type="tpm",
        layer="tenant",
        resource="tokens",
        limit=100,
        used=90,
        requested=20,
        reset_time_ms=0,
        knob="",
    )
    gateway.limiter.refuse = lambda _: LimitExceeded(
        Reason.TOKEN_LIMIT_EXCEEDED, "too many tokens", [violation], retry_after_s=3
    )
    with pytest.raises(anthropic.RateLimitError) as limited:
        await client_of(gateway).messages.create(**ASK)
    headers = limited.value.response.headers
    assert limited.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
    assert headers["retry-after"] == "3"
    assert headers["anthropic-ratelimit-tokens-remaining"] == "10"
    gateway.limiter.refuse = lambda _: WeirError(Reason.OVERLOADED, "busy", retry_after_s=1)
    with pytest.raises(anthropic.APIStatusError) as busy:
        await client_of(gateway).messages.create(**ASK)
    assert busy.value.status_code == 529
    assert busy.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index]


async def test_the_id_stands_in_a_header(gateway: Gateway) -> None:
    raw = await client_of(gateway).messages.with_raw_response.create(**(ASK | {"max_tokens": 1}))
    assert raw.headers["request-id"].startswith("req_")


async def test_a_stream_that_fails_half_way_ends_with_an_error_event(gateway: Gateway) -> None:
    gateway.worker.script = Script(
        pieces=["a", "b"],
        error=Reason.ENGINE_FAILED,
        finish=FinishReason.FINISH_REASON_ERROR,
    )
    stream = await client_of(gateway).messages.create(**ASK, stream=True)
    with pytest.raises(anthropic.APIStatusError) as failed:
        async for _ in stream:
            pass
    assert failed.value.body["error"]["type"] == "api_error"  # type: ignore[index]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"nonsense": 1}, "nonsense"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
        ({"messages": [*USER, {"role": "assistant", "content": "It is"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "content[0].type"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "no"}}, "tool_choice.name"),
        ({"tools": TOOLS, "model": "plain"}, "tools"),
        ({"stop_sequences": "x"}, "stop_sequences"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    gateway: Gateway, fields: dict[str, Any], told: str
) -> None:
    response = await gateway.http.post("/v1/messages", json=ASK | fields)
    assert response.status_code == 400
    body = response.json()
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert told in body["error"]["message"]
    assert not gateway.worker.specs


async def test_another_version_of_the_api_is_refused(gateway: Gateway) -> None:
    headers = {"anthropic-version": "2031-01-01"}
    response = await gateway.http.post("/v1/messages", json=ASK, headers=headers)
    assert response.status_code == 400
    assert "2023-06-01" in response.json()["error"]["message"]


async def test_a_client_that_leaves_frees_everything(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=1)
    stream = await client_of(gateway).messages.create(**ASK, stream=True)
    async with asyncio.timeout(20):
        async for event in stream:
            if event.type == "content_block_delta":
                break
    await stream.close()
