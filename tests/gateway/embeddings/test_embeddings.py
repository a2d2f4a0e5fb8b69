"""`/v1/embeddings` and `Embed`: one path with everything else."""

import asyncio
import base64
import struct
from typing import Any

import grpc
import openai
import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MAX_CONTEXT, MODEL, Gateway, eventually
from tests.gateway.test_openai_door import refusal
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.gateway.v1.inference_service_pb2 import EmbedInput, EmbedRequest, TokenInput
from weir.scheduler.v1.scheduler_service_pb2 import Enqueue, Rejected
from weir_core.errors import Reason
from weir_gateway.embeddings.order import GROUP_INPUTS, groups

pytestmark = pytest.mark.asyncio(loop_scope="module")


def shown(answer: openai.types.CreateEmbeddingResponse) -> list[list[float]]:
    return [entry.embedding for entry in answer.data]


@pytest.mark.parametrize(
    ("given", "vectors"),
    [
        ("abc", [[3, 64, 0.5]]),
        (["abc", "de"], [[3, 64, 0.5], [2, 67, 0.5]]),
        ([7, 8, 9], [[3, 7, 0.5]]),
        ([[7, 8], [9]], [[2, 7, 0.5], [1, 9, 0.5]]),
        (["abc", [9, 9]], [[3, 64, 0.5], [2, 9, 0.5]]),
    ],
)
async def test_every_form_of_input(
    gateway: Gateway, given: Any, vectors: list[list[float]]
) -> None:
    # The SDK asks for base64 by itself, and reads it.
    options: Any
    for options in ({}, {"encoding_format": "float"}):
        answer = await gateway.openai().embeddings.create(model="small", input=given, **options)
        assert shown(answer) == vectors
        assert [entry.index for entry in answer.data] == list(range(len(vectors)))
        assert (answer.object, answer.model) == ("list", MODEL)
        tokens = sum(int(vector[0]) for vector in vectors)
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (tokens, tokens)


async def test_base64_is_little_endian_floats(gateway: Gateway) -> None:
    body = {"model": MODEL, "input": "abc", "encoding_format": "base64", "user": "u"}
    answer = await gateway.http.post("/v1/embeddings", json=body)
    data = base64.b64decode(answer.json()["data"][0]["embedding"])
    assert struct.unpack("<3f", data) == (3.0, 64.0, 0.5)
    assert answer.headers["x-weir-model"] == MODEL
    assert answer.headers["x-ratelimit-limit-requests"] == "100"


async def test_it_is_reserved_queued_and_charged_as_any_request(gateway: Gateway) -> None:
    await gateway.openai().embeddings.create(
        model=MODEL, input=["abc", "de"], extra_body={"class": "batch", "priority": 3}
    )
    await gateway.at_rest()
    account = gateway.limiter.only()
    assert (account.request.prompt_tokens, account.request.max_new_tokens) == (5, 1)
    assert gateway.limiter.closings == [1]
    (enqueue,), (spec,) = gateway.scheduler.enqueued, gateway.worker.specs
    assert enqueue.embed
    assert list(enqueue.prefix_hashes) == []
    assert (enqueue.priority, list(spec.embed_lengths)) == (3, [3, 2])


async def test_a_long_call_is_cut_into_requests_that_fit(gateway: Gateway) -> None:
    inputs = ["x" * 100] * 5 + ["y" * (MAX_CONTEXT - 1)]
    answer = await gateway.openai().embeddings.create(model=MODEL, input=inputs)
    assert [vector[0] for vector in shown(answer)] == [100] * 5 + [MAX_CONTEXT - 1]
    specs = gateway.worker.specs
    assert [list(spec.embed_lengths) for spec in specs] == [[100, 100]] * 2 + [[100], [255]]
    assert answer.usage.prompt_tokens == 500 + MAX_CONTEXT - 1


async def test_groups_keep_order_and_bounds() -> None:
    assert groups([1], 10) == [range(1)]
    assert groups([5, 5, 1, 10], 10) == [range(2), range(2, 3), range(3, 4)]
    many = groups([1] * (2 * GROUP_INPUTS + 1), 10_000)
    assert [len(group) for group in many] == [GROUP_INPUTS, GROUP_INPUTS, 1]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 3]}, "input[1]"),
        ({"input": [[1, 2], [9_999]]}, "input[1][0]"),
        ({"input": ["a"] * 2_049}, "input"),
        ({"input": ["a", "x" * 300]}, "input[1]"),
        ({"input": {"a": 1}}, "input"),
        ({"dimensions": 2}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"session_id": "s"}, "session_id"),
        ({"inputs": "x"}, "inputs"),
    ],
)
async def test_what_is_wrong_is_refused_by_name_before_anything_runs(
    gateway: Gateway, fields: dict[str, Any], field: str
) -> None:
    answer = await gateway.http.post("/v1/embeddings", json={"model": MODEL, "input": "x"} | fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field
    assert not gateway.worker.specs
    assert not gateway.limiter.closings


async def test_a_model_without_workers_that_embed_says_so(gateway: Gateway) -> None:
    def reject(enqueue: Enqueue) -> Rejected:
        return Rejected(
            request_id=enqueue.request_id,
            error_reason=ErrorReason.ERROR_REASON_EMBEDDINGS_NOT_OFFERED,
            message="no worker of tiny makes embeddings",
        )

    gateway.scheduler.reject = reject
    with pytest.raises(openai.BadRequestError) as caught:
        await gateway.openai().embeddings.create(model=MODEL, input="x")
    assert caught.value.code == "embeddings_not_offered"


async def test_a_limit_refuses_it_with_its_time(gateway: Gateway) -> None:
    gateway.limiter.refuse = lambda _: refusal(Reason.TOKEN_LIMIT_EXCEEDED, "tpm")
    with pytest.raises(openai.RateLimitError) as caught:
        await gateway.openai().embeddings.create(model=MODEL, input="x")
    assert caught.value.response.headers["retry-after-ms"] == "3250"


async def test_a_worker_that_fails_is_left_for_another(gateway: Gateway) -> None:
    gateway.worker.script = Script(
        finish=FinishReason.FINISH_REASON_ERROR, error=Reason.ENGINE_FAILED
    )
    answer = await gateway.openai().embeddings.create(model=MODEL, input="abc")
    assert shown(answer) == [[3, 64, 0.5]]
    assert len(gateway.workers[1].specs) == 1


async def test_a_client_that_leaves_stops_it(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=0)
    call = asyncio.create_task(gateway.openai().embeddings.create(model=MODEL, input=["x"] * 3))
    await eventually(lambda: gateway.worker.running)
    call.cancel()
    await eventually(lambda: gateway.worker.aborts)
    await gateway.at_rest()


async def test_an_idempotency_key_makes_it_once(gateway: Gateway) -> None:
    headers = {"Idempotency-Key": "k"}
    calls = [
        await gateway.http.post(
            "/v1/embeddings", json={"model": MODEL, "input": "abc"}, headers=headers
        )
        for _ in range(2)
    ]
    # This gateway keeps no state: such a key is refused, and nothing ran.
    assert {call.json()["error"]["code"] for call in calls} == {"state_off"}
    assert not gateway.worker.specs


async def test_the_native_door(gateway: Gateway) -> None:
    inputs = [EmbedInput(text="abc"), EmbedInput(token_input=TokenInput(token_ids=[9, 9]))]
    request = EmbedRequest(model="small", inputs=inputs)
    stub: Any = gateway.stub
    answer = await stub.Embed(request, metadata=gateway.metadata, timeout=20)
    assert [list(one.values) for one in answer.embeddings] == [[3, 64, 0.5], [2, 9, 0.5]]
    assert (answer.model, answer.model_version) == (MODEL, "v1")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 0)
    for wrong in (EmbedRequest(model=MODEL), EmbedRequest(model=MODEL, inputs=[EmbedInput()])):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Embed(wrong, metadata=gateway.metadata, timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Embed(request, timeout=20)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
