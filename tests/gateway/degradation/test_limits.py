"""Requests that a limit refuses, run in a form that fits."""

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.degradation.site import (
    SMALL,
    SMALLEST,
    output_of,
    set_policy,
    too_many_requests,
    too_many_tokens,
)
from tests.gateway.endings import grpc_call
from tests.gateway.harness import MODEL, Gateway
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest
from weir_core.errors import WeirError

pytestmark = pytest.mark.asyncio(loop_scope="module")


def model_is_full(*models: str, asked: list[str] | None = None) -> Any:
    def refuse(request: ReserveRequest) -> WeirError | None:
        if asked is not None:
            asked.append(request.subject.model)
        full = request.subject.model in models
        return too_many_tokens(request, 1, layer="model") if full else None

    return refuse


async def test_a_full_model_is_replaced_by_its_fallback_and_the_answer_says_so(
    gateway: Gateway,
) -> None:
    gateway.limiter.refuse = model_is_full(MODEL)
    response = await gateway.chat(max_tokens=6)
    assert response.status_code == 200
    assert response.headers["x-weir-degraded"] == f"smaller_model={SMALL}"
    assert response.headers["x-weir-model"] == SMALL
    body = response.json()
    assert (body["model"], body["degradations"]) == (SMALL, [f"smaller_model={SMALL}"])
    account = gateway.limiter.only()
    assert account.request.subject.model == SMALL
    record = account.settles[0].lifecycle
    assert record.subject.model == SMALL
    assert list(record.degradations) == [f"smaller_model={SMALL}"]


async def test_the_chain_is_followed_past_what_the_key_may_not_use(gateway: Gateway) -> None:
    asked: list[str] = []
    gateway.limiter.refuse = model_is_full(MODEL, SMALL, asked=asked)
    response = await gateway.chat(max_tokens=6)
    assert response.json()["model"] == SMALLEST
    assert asked == [MODEL, SMALL, SMALLEST]


async def test_an_answer_is_bounded_by_what_the_limit_has_left(gateway: Gateway) -> None:
    prompts: list[int] = []

    def refuse(request: ReserveRequest) -> WeirError | None:
        prompts.append(request.prompt_tokens)
        room = request.prompt_tokens + 10
        wanted = request.prompt_tokens + output_of(request)
        return too_many_tokens(request, room) if wanted > room else None

    gateway.limiter.refuse = refuse
    response = await gateway.chat(max_tokens=50)
    assert response.headers["x-weir-degraded"] == "lower_max_new_tokens=10"
    assert response.headers["x-weir-max-new-tokens"] == "10"
    assert response.json()["usage"]["completion_tokens"] == 10
    assert response.json()["model"] == MODEL
    assert len(prompts) == 2
    messages = [m async for m in grpc_call(gateway, max_new_tokens=50)]
    assert list(messages[0].accepted.degradations) == ["lower_max_new_tokens=10"]
    assert messages[0].accepted.max_new_tokens == 10


async def test_one_answer_is_made_where_several_do_not_fit(gateway: Gateway) -> None:
    def refuse(request: ReserveRequest) -> WeirError | None:
        room = request.prompt_tokens + 5
        wanted = request.prompt_tokens + output_of(request)
        return too_many_tokens(request, room) if wanted > room else None

    gateway.limiter.refuse = refuse
    response = await gateway.chat(max_tokens=5, n=3)
    assert response.headers["x-weir-degraded"] == "cheaper_sampling=n:1"
    assert len(response.json()["choices"]) == 1
    assert response.json()["usage"]["completion_tokens"] == 5
    both = await gateway.chat(max_tokens=9, n=3)
    assert both.headers["x-weir-degraded"] == "cheaper_sampling=n:1, lower_max_new_tokens=5"


async def test_below_the_floor_and_for_limits_of_requests_the_refusal_stands(
    gateway: Gateway,
) -> None:
    gateway.limiter.refuse = lambda request: too_many_tokens(request, request.prompt_tokens + 3)
    response = await gateway.chat(max_tokens=50)
    assert response.status_code == 429
    wanted = response.json()["error"]["requested"]
    assert wanted > 50
    reserved: list[str] = []

    def refuse(request: ReserveRequest) -> WeirError:
        reserved.append(request.subject.model)
        return too_many_requests()

    gateway.limiter.refuse = refuse
    response = await gateway.chat(max_tokens=50)
    assert (response.status_code, reserved) == (429, [MODEL])
    assert not gateway.limiter.accounts


async def test_nothing_is_changed_that_the_policy_does_not_name(gateway: Gateway) -> None:
    gateway.limiter.refuse = model_is_full(MODEL)
    await set_policy(gateway)
    assert (await gateway.chat(max_tokens=6)).status_code == 429
    await set_policy(gateway, degradations=["lower_max_new_tokens"])
    assert (await gateway.chat(max_tokens=6)).status_code == 429
    await set_policy(gateway, degradations=["smaller_model"])
    assert (await gateway.chat(max_tokens=6)).status_code == 200
    # A version belongs to its model, and so do token ids.
    call = grpc_call(gateway, model_version="v1", max_new_tokens=6)
    with pytest.raises(Exception, match="limit"):
        [m async for m in call]


async def test_the_trace_tells_it_too(gateway: Gateway, spans: InMemorySpanExporter) -> None:
    gateway.limiter.refuse = model_is_full(MODEL)
    response = await gateway.chat(max_tokens=3)
    await gateway.at_rest()
    told = {}
    for span in spans.get_finished_spans():
        attributes = dict(span.attributes or {})
        if "weir.degradations" in attributes:
            told[attributes["weir.request.id"]] = attributes["weir.degradations"]
    assert told[response.headers["x-request-id"]] == (f"smaller_model={SMALL}",)


async def test_a_stream_tells_it_in_headers_and_chunks(gateway: Gateway) -> None:
    gateway.limiter.refuse = model_is_full(MODEL)
    response = await gateway.chat(max_tokens=3, stream=True)
    assert response.headers["x-weir-degraded"] == f"smaller_model={SMALL}"
    first = json.loads(response.text.split("\n\n")[0].removeprefix("data: "))
    assert first["degradations"] == [f"smaller_model={SMALL}"]
    plain = await gateway.chat(max_tokens=3, model=SMALL)
    assert "x-weir-degraded" not in plain.headers
    assert "degradations" not in plain.json()
    message = {"model": MODEL, "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    answer = await gateway.http.post("/v1/messages", json=message)
    assert answer.json()["degradations"] == [f"smaller_model={SMALL}"]
