"""The HTTP door: answers, streams, headers, and what OpenAI's own SDK makes of them."""

import asyncio
import json
from typing import Any

import httpx2
import openai
import pytest

from tests.gateway.fake_server import TOKEN
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from tests.gateway.support import routes_of
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.subject_pb2 import DeliveryMode, LatencySla, RequestClass
from weir_core.errors import LimitExceeded, Reason, Violation, WeirError
from weir_core.telemetry.traceparent import child_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
STOP = FinishReason.FINISH_REASON_STOP


def events_of(text: str) -> list[Any]:
    """The data of server-sent events, `[DONE]` as text."""
    data = [part.removeprefix("data: ") for part in text.split("\n\n") if part.startswith("data")]
    return [part if part == "[DONE]" else json.loads(part) for part in data]


async def test_a_chat_completion_whole(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Hello", " ", "wörld 😀"], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model="small", messages=[{"role": "user", "content": "hi"}], max_tokens=9, temperature=0
    )
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello wörld 😀", "stop")
    assert choice.message.role == "assistant"
    assert answer.usage is not None
    spec = gateway.worker.specs[0]
    assert answer.usage.prompt_tokens == len(spec.prompt_token_ids)
    assert answer.usage.completion_tokens == 3
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 3
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_chat_completion_streamed(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Hel", "lo", "", " 😀"], finish=STOP)
    stream = await gateway.openai().chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "Hello 😀"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_completions_whole_and_streamed(gateway: Gateway) -> None:
    client = gateway.openai()
    for prompt in ("Once", ["Once"], [79, 110], [[79, 110]]):
        answer = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=3)
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("t0 t1 t2 ", "length")
    assert list(gateway.worker.specs[-1].prompt_token_ids) == [79, 110]
    stream = await client.completions.create(model=MODEL, prompt="x", max_tokens=3, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == "t0 t1 t2 "
    assert chunks[-1].choices[0].finish_reason == "length"


async def test_every_parameter_reaches_the_worker(gateway: Gateway) -> None:
    await gateway.openai().chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
        max_completion_tokens=5,
        temperature=0.5,
        top_p=0.25,
        seed=-7,
        stop=["a", "b"],
        user="someone",
        extra_body={
            "top_k": 3,
            "priority": 99,
            "class": "batch",
            "latency_sla": "low",
            "conversation_id": "c-1",
            "model_version": "v1",
            "stop_token_ids": [7],
            "ignore_eos": True,
        },
    )
    spec, enqueue = gateway.worker.specs[0], gateway.scheduler.enqueued[0]
    sampling = spec.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.25, 3)
    assert (sampling.seed, list(sampling.stop)) == (-7, ["a", "b"])
    assert (list(sampling.stop_token_ids), sampling.ignore_eos) == ([7], True)
    assert (spec.max_new_tokens, spec.tenant_id, spec.model) == (5, "acme", MODEL)
    assert spec.priority == enqueue.priority == 10  # clamped to the plan's maximum
    assert len(spec.tokenizer_fingerprint) == 32
    assert 0 < spec.tenant_prefix_tokens < len(spec.prompt_token_ids)
    assert spec.private_scope == enqueue.session_id != ""
    assert getattr(enqueue, "class") == RequestClass.REQUEST_CLASS_BATCH
    assert enqueue.latency_sla == LatencySla.LATENCY_SLA_LOW
    assert enqueue.mode == DeliveryMode.DELIVERY_MODE_NON_STREAM
    subject = gateway.limiter.only().request.subject
    assert (subject.tenant_id, subject.user_id, subject.api_key_id) == (
        "acme",
        "alice",
        gateway.key.id,
    )
    assert (subject.model, subject.model_version, subject.plan_id) == (MODEL, "v1", "team")
    assert spec.trace.traceparent == child_of(enqueue.trace.traceparent, 1) != ""


async def test_a_priority_above_the_tenants_is_clamped_and_the_one_taken_is_told(
    gateway: Gateway,
) -> None:
    for asked, taken in ((50, 10), (10, 10), (3, 3)):
        gateway.reset()
        response = await gateway.chat(priority=asked)
        assert response.status_code == 200
        assert response.headers["x-weir-priority"] == str(taken)
        assert gateway.scheduler.enqueued[0].priority == taken


async def test_the_default_bound_is_reported(gateway: Gateway) -> None:
    response = await gateway.chat()
    assert response.headers["x-weir-max-new-tokens"] == "8"
    assert response.headers["x-weir-priority"] == "0"
    body = response.json()
    assert body["max_new_tokens"] == 8
    assert body["usage"]["completion_tokens"] == 8
    assert gateway.limiter.only().request.max_new_tokens == 8


async def test_headers_of_an_answer_and_of_a_stream(gateway: Gateway) -> None:
    for stream in (False, True):
        response = await gateway.chat(stream=stream)
        headers = response.headers
        assert headers["x-request-id"].startswith("req_")
        assert headers["x-ratelimit-limit-requests"] == "100"
        assert headers["x-ratelimit-remaining-requests"] == "40"
        assert headers["x-ratelimit-remaining-tokens"] == "9000"
        assert headers["x-ratelimit-reset-tokens"].endswith("s")
        assert headers["x-ratelimit-mode"] == "enforced"
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert events_of(response.text)[-1] == "[DONE]"


def refusal(reason: Reason, limit_type: str) -> LimitExceeded:
    violation = Violation(
        limit_id=f"tenant:acme/{limit_type}",
        limit_type=limit_type,
        resource="tokens",
        layer="tenant",
        limit=100,
        used=90,
        requested=30,
        reset_time_ms=1_900_000_000_000,
        knob="limit tpm of tenant acme",
    )
    return LimitExceeded(reason, "tenant:acme/tpm is used up", [violation], retry_after_s=3.25)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_by_a_limit_is_a_429_that_says_when(gateway: Gateway, stream: bool) -> None:
    gateway.limiter.refuse = lambda _: refusal(Reason.TOKEN_LIMIT_EXCEEDED, "tpm")
    with pytest.raises(openai.RateLimitError) as caught:
        await gateway.openai().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], stream=stream
        )
    body: Any = caught.value.body
    assert body["limit_type"] == "tpm"
    assert (body["limit"], body["used"], body["requested"]) == (100, 90, 30)
    assert (body["layer"], body["type"], body["code"]) == (
        "tenant",
        "tokens",
        "rate_limit_exceeded",
    )
    assert body["reset_time"] == "2030-03-17T17:46:40.000Z"
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("4", "3250")
    assert headers["x-ratelimit-limit-tokens"] == "100"
    assert headers["x-ratelimit-remaining-tokens"] == "10"
    assert not gateway.worker.specs
    gateway.limiter.refuse = lambda _: None
    assert (await gateway.chat()).status_code == 200


async def test_a_limiter_that_says_when_to_come_back_is_believed(gateway: Gateway) -> None:
    away = WeirError(Reason.LIMITER_UNAVAILABLE, "the store is away", retry_after_s=12)
    gateway.limiter.refuse = lambda _: away
    response = await gateway.chat()
    assert (response.status_code, response.headers["retry-after"]) == (503, "12")


async def test_the_request_rate_is_refused_before_anything_else_happens(gateway: Gateway) -> None:
    document = gateway.document | {}
    slow = {"resource": "requests", "rate": "1/min"}
    tenants = [document["tenants"][0] | {"limits": [slow]}, document["tenants"][1]]
    await gateway.reload(document | {"tenants": tenants})
    try:
        responses = [await gateway.chat() for _ in range(3)]
        assert [r.status_code for r in responses] == [200, 429, 429]
        error = responses[-1].json()["error"]
        assert (error["limit_type"], error["limit"], error["used"]) == ("rps", 1, 1)
        assert error["resource"] == "requests_per_minute"
        assert 1 <= int(responses[-1].headers["retry-after"]) <= 60
        assert len(gateway.limiter.accounts) == 1
        # A request that is refused for another reason is given back.
        assert (await gateway.chat(model="none")).status_code == 429
    finally:
        await gateway.reload(gateway.document)


async def test_what_another_limit_refuses_uses_up_no_request_rate(gateway: Gateway) -> None:
    document = gateway.document | {}
    slow = {"id": "burst", "resource": "requests", "rate": "1/min", "burst": 4}
    tenants = [document["tenants"][0] | {"limits": [slow]}, document["tenants"][1]]
    await gateway.reload(document | {"tenants": tenants})
    gate = gateway.limiter.reserve_gate = asyncio.Event()
    gateway.limiter.concurrency = 2
    calls = [asyncio.create_task(gateway.chat(max_tokens=2)) for _ in range(7)]
    try:
        await eventually(lambda: gateway.limiter.reserving == 7)
        gate.set()
        codes = [r.json().get("error", {}).get("code") for r in await asyncio.gather(*calls)]
        assert sorted(map(str, codes)) == ["None"] * 2 + ["concurrency_limit_exceeded"] * 5
        gateway.limiter.reserve_gate = gateway.limiter.concurrency = None
        assert [(await gateway.chat()).status_code for _ in range(3)] == [200, 200, 429]
    finally:
        gate.set()
        await asyncio.gather(*calls)
        await gateway.reload(gateway.document)


@pytest.mark.parametrize(
    ("reason", "status", "raised"),
    [
        (Reason.QUEUE_TIMEOUT, 503, openai.InternalServerError),
        (Reason.NO_WORKER, 503, openai.InternalServerError),
        (Reason.QUEUE_FULL, 503, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_scheduler_sheds_is_refunded(
    gateway: Gateway, reason: Reason, status: int, raised: type[Exception], stream: bool
) -> None:
    from weir.common.v1.error_reason_pb2 import ErrorReason
    from weir.scheduler.v1.scheduler_service_pb2 import Enqueue, Rejected

    def reject(enqueue: Enqueue) -> Rejected:
        rejected = Rejected(
            request_id=enqueue.request_id,
            error_reason=ErrorReason.Value(f"ERROR_REASON_{reason}"),
            message="waited 30 s; raise queue_timeout_ms",
        )
        rejected.retry_after.FromSeconds(2)
        return rejected

    gateway.scheduler.reject = reject
    with pytest.raises(raised) as caught:
        await gateway.openai().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], stream=stream
        )
    assert isinstance(caught.value, openai.APIStatusError)
    assert caught.value.status_code == status
    assert "queue_timeout_ms" in caught.value.message
    assert caught.value.response.headers["retry-after"] == "2"
    (refund,) = gateway.limiter.only().refunds
    assert refund.outcome == Outcome.OUTCOME_SHED
    assert refund.lifecycle.attempts == 0
    assert not gateway.limiter.only().settles


async def test_what_was_shed_uses_up_no_request_rate(gateway: Gateway) -> None:
    from weir.common.v1.error_reason_pb2 import ErrorReason
    from weir.scheduler.v1.scheduler_service_pb2 import Rejected

    one = {"id": "one", "resource": "requests", "rate": "1/min"}
    document = gateway.document | {}
    tenants = [document["tenants"][0] | {"limits": [one]}, document["tenants"][1]]
    await gateway.reload(document | {"tenants": tenants})
    gateway.scheduler.reject = lambda enqueue: Rejected(
        request_id=enqueue.request_id, error_reason=ErrorReason.ERROR_REASON_QUEUE_FULL
    )
    try:
        assert [(await gateway.chat()).status_code for _ in range(2)] == [503, 503]
    finally:
        await gateway.reload(gateway.document)


async def test_an_error_half_way_comes_in_band_before_done(gateway: Gateway) -> None:
    gateway.worker.script = Script(
        pieces=["a", "b"], finish=FinishReason.FINISH_REASON_ERROR, error=Reason.ENGINE_FAILED
    )
    response = await gateway.chat(stream=True)
    assert response.status_code == 200
    events = events_of(response.text)
    assert events[-1] == "[DONE]"
    assert events[-2]["error"]["code"] == "engine_failed"
    assert [e["choices"][0]["delta"].get("content") for e in events[1:-2]] == ["a", "b"]
    stream = await gateway.openai().chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "x"}], stream=True
    )
    with pytest.raises(openai.APIError, match="as the test wants"):
        [chunk async for chunk in stream]


async def test_an_error_before_the_first_token_is_a_status(gateway: Gateway) -> None:
    script = Script(
        pieces=[], finish=FinishReason.FINISH_REASON_REJECTED, error=Reason.REQUEST_TOO_LARGE
    )
    gateway.worker.script = script
    response = await gateway.chat(stream=True)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "request_too_large"


async def test_keys_are_asked_for(gateway: Gateway) -> None:
    url = f"http://{gateway.app.http_address}/v1"
    for key, text in (("", "no API key"), ("wrong", "malformed")):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient() as plain:
            response = await plain.post(f"{url}/chat/completions", json={}, headers=headers)
        assert response.status_code == 401
        error = response.json()["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert text in error["message"]
    with pytest.raises(openai.AuthenticationError):
        await gateway.openai(api_key="sk-nothing").models.list()
    assert (await gateway.chat()).status_code == 200


async def test_models_are_those_of_the_caller(gateway: Gateway) -> None:
    mine = await gateway.openai().models.list()
    assert [model.id for model in mine.data] == [MODEL]
    assert mine.data[0].object == "model"
    assert mine.data[0].created > 0
    assert (await gateway.openai().models.retrieve("small")).id == MODEL
    with pytest.raises(openai.NotFoundError) as caught:
        await gateway.openai().models.retrieve("org/secret")
    other = gateway.openai(api_key=gateway.other_key.secret)
    assert (await other.models.retrieve("org/secret")).id == "org/secret"
    with pytest.raises(openai.NotFoundError) as unknown:
        await gateway.openai().models.retrieve("org/nobody")
    told = caught.value.message.replace("org/secret", "X")
    assert told == unknown.value.message.replace("org/nobody", "X")


async def test_browsers_may_call(gateway: Gateway) -> None:
    """Reported elsewhere as vllm-project/vllm#4862: preflights were asked for a key."""
    origin = {"origin": "https://app.example", "access-control-request-method": "POST"}
    asked = {"access-control-request-headers": "authorization,content-type,x-stainless-os"}
    url = f"http://{gateway.app.http_address}/v1/chat/completions"
    async with httpx2.AsyncClient() as plain:
        preflight = await plain.options(url, headers=origin | asked)
        refused = await plain.post(url, json={}, headers=origin)
    assert preflight.status_code == 200
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "*"
    exposed = refused.headers["access-control-expose-headers"]
    for header in ("x-ratelimit-remaining-tokens", "retry-after", "x-request-id"):
        assert header in exposed


async def test_unknown_paths_and_methods_answer_in_the_same_form(gateway: Gateway) -> None:
    for response, status in (
        (await gateway.http.get("/v1/nothing"), 404),
        (await gateway.http.get("/v1/chat/completions"), 405),
        (await gateway.http.delete("/v1/models"), 405),
    ):
        assert response.status_code == status
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert "GET /openapi.json" in response.json()["error"]["message"]
        assert response.headers["x-request-id"]


async def test_health_and_metrics(gateway: Gateway) -> None:
    assert (await gateway.http.get("/healthz/live")).json() == {"status": "ok"}
    assert (await gateway.http.get("/healthz/ready")).status_code == 200
    await gateway.chat(max_tokens=3)
    await eventually(lambda: not gateway.limiter.open_accounts)
    operator = {"authorization": f"Bearer {TOKEN.get_secret_value()}"}
    text = (await gateway.http.get("/metrics", headers=operator)).text
    for sample in (
        'weir_gateway_requests_total{model="tiny",outcome="ok",tenant="acme"}',
        'weir_gateway_tokens_total{direction="output",model="tiny",tenant="acme"}',
        'time_to_first_token_bucket{le="0.5",model="tiny"}',
        'tokens_per_second_count{model="tiny"}',
        'end_to_end_latency_count{model="tiny"}',
        "weir_gateway_requests_in_flight 0.0",
    ):
        assert sample in text


async def test_a_silent_stream_is_pinged(gateway: Gateway) -> None:
    gateway.scheduler.hold = True
    endpoint_ping_s = 0.05
    settings = gateway.app.settings
    assert settings.ping_s == 10
    from weir_gateway.openai.generation_endpoint import GenerationEndpoint

    for endpoint in _endpoints(gateway, GenerationEndpoint):
        endpoint._ping_s = endpoint_ping_s
    try:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "x"}],
            "stream": True,
            "max_tokens": 2,
        }
        async with gateway.http.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.status_code == 200
            seen = ""
            async for text in response.aiter_text():
                seen += text
                if seen.count(": ping\n\n") == 2 and gateway.scheduler.hold:
                    gateway.scheduler.release()
        assert seen.count(": ping") >= 2
        assert "".join(
            e["choices"][0]["delta"].get("content", "") for e in events_of(seen)[:-1]
        ) == ("t0 t1 ")
    finally:
        for endpoint in _endpoints(gateway, GenerationEndpoint):
            endpoint._ping_s = 10.0


def _endpoints(gateway: Gateway, kind: type[Any]) -> list[Any]:
    routes = routes_of(gateway.app._http._server.config.app)
    return [route.app for route in routes if isinstance(route.app, kind)]


async def test_limiter_down_is_a_503_and_not_a_429(gateway: Gateway) -> None:
    await gateway.limiter.server.stop()
    try:
        response = await gateway.chat()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "limiter_unavailable"
        assert response.headers["retry-after"]
    finally:
        await gateway.limiter.server.start()
    await eventually_ok(gateway)


async def eventually_ok(gateway: Gateway) -> None:
    async with asyncio.timeout(30):
        while (await gateway.chat()).status_code != 200:
            await asyncio.sleep(0.05)


async def test_a_fault_of_ours_tells_only_an_id(gateway: Gateway) -> None:
    def explode(_: object) -> WeirError:
        raise RuntimeError("secret detail")

    gateway.limiter.refuse = explode
    response = await gateway.chat()
    assert response.status_code == 500
    assert "secret detail" not in response.text
    assert "internal error, id" in response.json()["error"]["message"]
