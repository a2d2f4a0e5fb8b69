"""Bad input over gRPC: INVALID_ARGUMENT and kin with field, value and bound; the next one works."""

from typing import Any

import grpc
import pytest

from tests.gateway.harness import MAX_CONTEXT, MODEL, Gateway
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.gateway.v1 import inference_service_pb2 as pb
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")

Status = grpc.StatusCode
NAN, INF = float("nan"), float("inf")


def good(**fields: Any) -> pb.GenerateRequest:
    defaults: dict[str, Any] = {"model": MODEL, "max_new_tokens": 2, "stream": True}
    if not {"chat", "prompt", "token_input"} & set(fields):
        defaults["chat"] = chat(("user", "hi"))
    return pb.GenerateRequest(**(defaults | fields))


def chat(*turns: tuple[str, str], **fields: Any) -> pb.ChatInput:
    messages = [pb.ChatMessage(role=role, content=content) for role, content in turns]
    return pb.ChatInput(messages=messages, **fields)


def sampling(**fields: Any) -> pb.GenerateRequest:
    return good(sampling=SamplingParams(**fields))


BAD: list[tuple[pb.GenerateRequest, str, tuple[str, ...]]] = [
    (good(chat=pb.ChatInput()), "chat.messages", ("array of 0", "1 to")),
    (good(chat=chat(("wizard", "x"))), "chat.messages[0].role", ("wizard", "assistant")),
    (good(chat=chat(("user", "x"), ("", "y"))), "chat.messages[1].role", ("''",)),
    (good(chat=chat(("tool", "x"))), "messages", ("no tools here",)),
    (good(chat=chat(("user", "x"), tools_json=["{"])), "chat.tools_json[0]", ("JSON object",)),
    (good(chat=chat(("user", "x"), tools_json=["[1]"])), "chat.tools_json[0]", ("JSON object",)),
    *(
        (good(chat=chat(("user", "x"), tools_json=[text])), "chat.tools_json[0]", ("written",))
        for text in (
            '{"x": NaN}',
            '{"x": 1e999}',
            '{"x": "\\ud800"}',
            '{"x": ' + "[" * 600 + "]" * 600 + "}",
        )
    ),
    (pb.GenerateRequest(model=MODEL, max_new_tokens=1), "input", ("chat, prompt",)),
    (good(prompt=""), "prompt", ("0 characters",)),
    (good(token_input=pb.TokenInput()), "token_input.token_ids", ("at least one",)),
    (good(token_input=pb.TokenInput(token_ids=[-1])), "token_input.token_ids[0]", ("-1", "258")),
    (good(prompt="abc", shared_prefix_characters=4), "shared_prefix_characters", ("0 to 3",)),
    (good(prompt="abc", shared_prefix_characters=-1), "shared_prefix_characters", ("-1",)),
    (good(model=""), "model", ("''",)),
    (good(max_new_tokens=0), "max_new_tokens", ("is 0", "1 to 200")),
    (good(max_new_tokens=-3), "max_new_tokens", ("is -3",)),
    (good(max_new_tokens=2**62), "max_new_tokens", ("1 to 200",)),
    (good(max_new_tokens=2, max_tokens=3), "max_tokens", ("3", "2")),
    (
        pb.GenerateRequest(model=MODEL, prompt="x"),
        "max_new_tokens",
        ("null", "set, from 1 to 200"),
    ),
    (sampling(temperature=NAN), "sampling.temperature", ("nan", "finite")),
    (sampling(temperature=INF), "sampling.temperature", ("inf", "finite")),
    (sampling(temperature=-INF), "sampling.temperature", ("-inf",)),
    (sampling(temperature=-0.01), "sampling.temperature", ("0 to 2",)),
    (sampling(top_p=NAN), "sampling.top_p", ("nan",)),
    (sampling(top_p=0.0), "sampling.top_p", ("above 0",)),
    (sampling(top_k=-2), "sampling.top_k", ("-2",)),
    (sampling(top_k=300), "sampling.top_k", ("300", "259")),
    (sampling(stop=[""]), "sampling.stop[0]", ("0 characters", "1 to 256")),
    (sampling(stop=["a"] * 17), "sampling.stop", ("17", "16")),
    (sampling(stop_token_ids=[259]), "sampling.stop_token_ids[0]", ("259", "258")),
    (good(priority=-1), "priority", ("-1", "0 to 100")),
    (good(priority=101), "priority", ("101",)),
    (good(latency_sla=99), "latency_sla", ("99", "LATENCY_SLA_LOW")),
    (good(**{"class": 99}), "class", ("99", "REQUEST_CLASS_BATCH")),
    (good(session_id="s" * 129), "session_id", ("129", "128")),
    (good(conversation_id="c" * 257), "conversation_id", ("256",)),
    (good(json_schema="{"), "json_schema", ("JSON",)),
    (good(json_schema="[1]"), "json_schema", ("array of 1", "object")),
    (good(regex="a", lark_grammar="b"), "lark_grammar", ("regex",)),
    (good(sampling={"n": 9}), "sampling.n", ("9", "1 to 8")),
    (good(sampling={"n": -1}), "sampling.n", ("-1", "1 to 8")),
    (good(sampling={"logprobs": 21}), "sampling.logprobs", ("21", "0 to 20")),
    (good(sampling={"prompt_logprobs": -1}), "sampling.prompt_logprobs", ("-1", "0 to 20")),
    (good(sampling={"min_p": 2.0}), "sampling.min_p", ("2", "0 to 1")),
    (good(sampling={"logit_bias": {1: 200.0}}), "sampling.logit_bias[1]", ("200", "100")),
    (good(idempotency_key="k" * 256), "idempotency_key", ("256 characters", "255")),
    (good(prompt="x" * MAX_CONTEXT), "prompt", (f"{MAX_CONTEXT} tokens", "shorten")),
    (good(prompt="x" * 100, max_new_tokens=199), "prompt", ("max_new_tokens is 199", "at most")),
]


@pytest.mark.parametrize(
    ("request_", "field", "told"), BAD, ids=[f"{i}-{b[1]}" for i, b in enumerate(BAD)]
)
async def test_a_bad_field(
    gateway: Gateway, request_: pb.GenerateRequest, field: str, told: tuple[str, ...]
) -> None:
    status, error = await refusal(gateway, request_)
    assert status is Status.INVALID_ARGUMENT
    assert error.field == field
    for text in told:
        assert text in error.message, error.message
    if error.reason is Reason.INVALID_FIELD:
        assert isinstance(error, InvalidField)
        assert error.bound
    await still_works(gateway)


@pytest.mark.parametrize("model", ["nobody", "org/secret", "模型", "x" * 10_000])
async def test_an_unknown_model_and_one_of_others_look_alike(gateway: Gateway, model: str) -> None:
    status, error = await refusal(gateway, good(model=model))
    assert status is Status.NOT_FOUND
    assert error.reason is Reason.MODEL_NOT_FOUND
    assert error.message.startswith("there is no model")
    await still_works(gateway)


async def test_sessions_need_a_state_database(gateway: Gateway) -> None:
    _, error = await refusal(gateway, good(session_id="ses_guess"))
    assert error.reason is Reason.STATE_OFF
    await still_works(gateway)


async def test_a_message_of_10_megabytes(gateway: Gateway) -> None:
    status, error = await refusal(gateway, good(prompt="x" * 10_000_001))
    assert status is Status.INVALID_ARGUMENT
    assert error.reason is Reason.BODY_TOO_LARGE
    assert "4000000" in error.message
    await still_works(gateway)


async def test_a_message_over_the_transport_limit(gateway: Gateway) -> None:
    call: Any = gateway.stub.Generate(good(prompt="x" * 30_000_000), metadata=gateway.metadata)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is Status.RESOURCE_EXHAUSTED
    assert "larger than max" in (caught.value.details() or "")
    await still_works(gateway)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x1a\x05hello"])
async def test_bytes_that_are_no_message_or_no_utf8(gateway: Gateway, raw: bytes) -> None:
    call: Any = gateway.channel.unary_stream("/weir.gateway.v1.InferenceService/Generate")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in call(raw, metadata=gateway.metadata)]
    assert caught.value.code() is Status.INVALID_ARGUMENT
    assert "cannot be decoded" in (caught.value.details() or "")
    await still_works(gateway)


@pytest.mark.parametrize(
    "metadata",
    [(), (("authorization", "Bearer x"),), (("authorization", "Basic x"),)],
    ids=["no key", "wrong key", "wrong scheme"],
)
async def test_keys_are_asked_for(gateway: Gateway, metadata: tuple[tuple[str, str], ...]) -> None:
    stub: Any = gateway.stub
    for call in (
        stub.ListModels(pb.ListModelsRequest(), metadata=metadata),
        stub.Tokenize(pb.TokenizeRequest(), metadata=metadata),
        stub.GetRequest(pb.GetRequestRequest(request_id="x"), metadata=metadata),
        stub.Generate(good(), metadata=metadata).read(),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is Status.UNAUTHENTICATED
    await still_works(gateway)


async def test_counting_tokens_keeps_to_the_request_rate(gateway: Gateway) -> None:
    request = pb.TokenizeRequest(model=MODEL, prompt="héllo")
    stub: Any = gateway.stub
    answer = await stub.Tokenize(request, metadata=gateway.metadata)
    assert (len(answer.token_ids), answer.max_context_tokens) == (6, MAX_CONTEXT)
    tenant = gateway.document["tenants"][0]
    slow = tenant | {"limits": [{"resource": "requests", "rate": "1/min"}]}
    await gateway.reload(gateway.document | {"tenants": [slow, gateway.document["tenants"][1]]})
    try:
        statuses = []
        for _ in range(3):
            try:
                await stub.Tokenize(request, metadata=gateway.metadata)
            except grpc.aio.AioRpcError as error:
                statuses.append(error.code())
        assert Status.RESOURCE_EXHAUSTED in statuses
    finally:
        await gateway.reload(gateway.document)


async def refusal(
    gateway: Gateway, request: pb.GenerateRequest
) -> tuple[grpc.StatusCode, WeirError]:
    call: Any = gateway.stub.Generate(request, metadata=gateway.metadata, timeout=20)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in call]
    assert not gateway.limiter.accounts
    return caught.value.code(), from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)


async def still_works(gateway: Gateway) -> None:
    call: Any = gateway.stub.Generate(good(), metadata=gateway.metadata, timeout=20)
    messages = [message async for message in call]
    assert messages[-1].WhichOneof("event") == "finished"
