"""A request with an idempotency key is run once, whichever gateway it is sent to."""

import asyncio
import json
from typing import Any

import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, eventually
from tests.gateway.idempotency.pair import (
    CHAT,
    STREAM,
    WHOLE,
    Pair,
    answered,
    post,
    reason_of,
)
from tests.gateway.support import routes_of
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.scheduler.v1.scheduler_service_pb2 import Rejected
from weir_core.errors import Reason, WeirError

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_GENERATING = {
    "/v1/tokenize",
    "/v1/detokenize",
    "/v1/messages/count_tokens",
    "/v1/responses/input_tokens",
    "/v1/sessions",
    "/v1/files",
    "/v1/batches",
    "/v1/jobs",
}
MESSAGES = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, WHOLE),
        (CHAT, STREAM),
        ("/v1/completions", {"model": MODEL, "prompt": "hi", "max_tokens": 4}),
        ("/v1/messages", MESSAGES),
        ("/v1/messages", MESSAGES | {"stream": True}),
    ],
    ids=["chat", "chat-stream", "completion", "messages", "messages-stream"],
)
async def test_a_second_call_gets_the_same_bytes(
    pair: Pair, path: str, body: dict[str, Any]
) -> None:
    key = f"same-{path}-{body.get('stream')}"
    first = await post(pair.first, key, body, path)
    assert first.status_code == 200, first.text
    assert "idempotent-replayed" not in first.headers
    for gateway in (pair.first, pair.second):
        again = await post(gateway, key, body, path)
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        for name in ("content-type", "x-request-id", "x-weir-model"):
            assert again.headers[name] == first.headers[name]
        assert "x-ratelimit-remaining-tokens" not in again.headers
    assert (pair.runs, pair.charges) == (1, 1)
    assert len(pair.first.limiter.accounts) == 1


async def test_a_response_for_later_is_submitted_once(pair: Pair) -> None:
    body = {"model": MODEL, "input": "hi", "max_output_tokens": 3, "background": True}
    first = await post(pair.first, "later", body, "/v1/responses")
    assert first.status_code == 200, first.text
    again = await post(pair.second, "later", body, "/v1/responses")
    assert again.json()["id"] == first.json()["id"]
    await eventually(lambda: pair.charges == 1)
    assert pair.runs == 1


async def test_another_form_of_the_same_body_is_the_same_request(pair: Pair) -> None:
    await post(pair.first, "form", WHOLE)
    turned = json.dumps(dict(reversed(WHOLE.items())), indent=3)
    headers = {"idempotency-key": "form", "content-type": "application/json"}
    again = await pair.second.http.post(CHAT, content=turned, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert pair.runs == 1


async def test_parallel_calls_run_once(pair: Pair) -> None:
    """The others are told to come back, as SDKs do on 409."""
    pair.first.worker.script = Script(pause_after=1)
    calls = [
        asyncio.create_task(post(gateway, "parallel", WHOLE))
        for gateway in (pair.first, pair.second) * 4
    ]
    await eventually(lambda: sum(call.done() for call in calls) == len(calls) - 1)
    pair.first.worker.resume.set()
    answers = await asyncio.gather(*calls)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert reason_of(refused) == "IDEMPOTENCY_IN_PROGRESS"
    assert refused.json()["error"]["type"] == "idempotency_error"
    assert float(refused.headers["retry-after"]) >= 1
    assert (pair.runs, pair.charges) == (1, 1)


async def test_a_retrying_sdk_gets_the_answer_of_the_call_that_runs(pair: Pair) -> None:
    pair.first.worker.script = Script(pause_after=1)
    options: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 4,
        "extra_headers": {"Idempotency-Key": "sdk"},
    }
    async with pair.first.openai() as one, pair.second.openai(max_retries=5) as other:
        first = asyncio.ensure_future(one.chat.completions.create(**options))
        await eventually(lambda: pair.runs == 1)
        before = pair.counted("idempotency_in_progress")
        second: asyncio.Future[Any] = asyncio.ensure_future(
            other.chat.completions.with_raw_response.create(**options)
        )
        await eventually(lambda: pair.counted("idempotency_in_progress") > before)
        pair.first.worker.resume.set()
        raw = await second
        assert raw.headers["idempotent-replayed"] == "true"
        assert raw.parse() == await first
        assert raw.retries_taken >= 1
    assert (pair.runs, pair.charges) == (1, 1)


async def test_a_replayed_stream_reads_as_the_first_in_an_sdk(pair: Pair) -> None:
    options: dict[str, Any] = STREAM | {"extra_headers": {"Idempotency-Key": "sdk-stream"}}
    seen = []
    for gateway in (pair.first, pair.second):
        async with gateway.openai() as client:
            stream = await client.chat.completions.create(**options)
            seen.append([chunk async for chunk in stream])
    assert seen[0] == seen[1]
    assert seen[0][-1].usage.completion_tokens == 4
    assert pair.charges == 1


async def test_another_request_with_the_key_is_a_conflict(pair: Pair) -> None:
    await post(pair.first, "conflict", WHOLE)
    other = await post(pair.second, "conflict", WHOLE | {"max_tokens": 5})
    assert (other.status_code, reason_of(other)) == (422, "IDEMPOTENCY_CONFLICT")
    assert other.json()["error"]["param"] == "Idempotency-Key"
    assert pair.runs == 1


async def test_a_key_counts_within_tenant_and_route(pair: Pair) -> None:
    await post(pair.first, "scope", WHOLE)
    bearer = f"Bearer {pair.first.other_key.secret}"
    other = await post(pair.second, "scope", WHOLE, authorization=bearer)
    assert other.status_code == 200
    assert "idempotent-replayed" not in other.headers
    text = await post(
        pair.first, "scope", {"model": MODEL, "prompt": "hi", "max_tokens": 2}, "/v1/completions"
    )
    assert text.status_code == 200
    assert pair.runs == 3


@pytest.mark.parametrize("key", ["", "k" * 256, "caf\u00e9".encode().decode("latin-1")])
async def test_a_key_that_is_none(pair: Pair, key: str) -> None:
    response = await pair.first.http.post(
        CHAT, json=WHOLE, headers=[(b"idempotency-key", key.encode("latin-1"))]
    )
    assert (response.status_code, response.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert "255" in response.json()["error"]["message"]
    assert pair.runs == 0


async def test_every_generating_path_heeds_the_key(pair: Pair) -> None:
    """A new path that forgets it fails here, unless it is named as one that does not generate."""
    edge = pair.first.app.edge
    assert edge is not None
    paths = [
        route.path
        for route in routes_of(edge.http_app())
        if "POST" in (route.methods or ()) and route.path.startswith("/v1/")
    ]
    generating = [path for path in paths if path not in NOT_GENERATING and "{" not in path]
    assert {CHAT, "/v1/completions", "/v1/messages"} <= set(generating)
    for path in generating:
        response = await post(pair.first, "k" * 256, {"model": MODEL}, path)
        assert response.status_code == 400, path
        assert "Idempotency-Key" in response.text, path


async def test_what_was_refused_is_not_kept(pair: Pair) -> None:
    bad = await post(pair.first, "refused", WHOLE | {"temperature": 9})
    assert bad.status_code == 400
    pair.first.limiter.refuse = lambda _: WeirError(
        Reason.TOKEN_LIMIT_EXCEEDED, "no", retry_after_s=1.0
    )
    assert (await post(pair.first, "refused", WHOLE)).status_code == 429
    pair.first.limiter.refuse = lambda _: None
    good = await post(pair.second, "refused", WHOLE)
    assert good.status_code == 200
    assert "idempotent-replayed" not in good.headers


async def test_what_never_reached_a_worker_is_not_kept(pair: Pair) -> None:
    pair.first.scheduler.reject = lambda enqueue: Rejected(
        request_id=enqueue.request_id,
        error_reason=ErrorReason.ERROR_REASON_OVERLOADED,
        message="busy",
    )
    shed = await post(pair.first, "shed", WHOLE)
    assert shed.status_code == 503
    again = await post(pair.second, "shed", WHOLE)
    assert again.status_code == 200
    assert "idempotent-replayed" not in again.headers


async def test_a_failure_of_what_ran_is_replayed(pair: Pair) -> None:
    pair.first.worker.script = Script(
        pieces=["a"], finish=FinishReason.FINISH_REASON_ERROR, error=Reason.ENGINE_FAILED
    )
    stream = await post(pair.first, "failed", STREAM)
    assert "error" in stream.text
    pair.first.worker.script = Script()
    again = await post(pair.second, "failed", STREAM)
    assert again.content == stream.content
    assert pair.runs == 1


async def test_an_answer_beyond_the_bound_is_sent_but_not_kept(pair: Pair) -> None:
    # However the text is cut into events, it alone is beyond the bound.
    pair.first.worker.script = Script(pieces=["x" * 1_000] * 30)
    body = STREAM | {"max_tokens": 50}
    first = await post(pair.first, "large", body)
    assert first.text.endswith("data: [DONE]\n\n")
    assert len(first.content) > 20_000
    again = await post(pair.second, "large", body)
    assert (again.status_code, reason_of(again)) == (422, "IDEMPOTENCY_CONFLICT")
    assert "too large" in again.json()["error"]["message"]
    assert pair.runs == 1


async def test_a_client_that_leaves_finds_its_answer(pair: Pair) -> None:
    pair.first.worker.script = Script(pause_after=2)
    headers = {"idempotency-key": "left"}
    async with pair.first.http.stream("POST", CHAT, json=STREAM, headers=headers) as response:
        async for part in response.aiter_text():
            if "t1 " in part:
                break
    assert (await post(pair.second, "left", STREAM)).status_code == 409
    pair.first.worker.resume.set()
    again = await answered(pair.second, "left", STREAM)
    assert "t3 " in again.text
    assert again.text.endswith("data: [DONE]\n\n")
    assert (pair.runs, pair.charges) == (1, 1)
    assert not pair.first.worker.aborts


async def test_a_replay_counts_as_one_request_of_the_guard(pair: Pair) -> None:
    document = json.loads(json.dumps(pair.first.document))
    document["tenants"][0]["users"][0]["limits"] = [{"resource": "requests", "rate": "3/min"}]
    try:
        await pair.first.reload(document)
        statuses = [(await post(pair.first, "guard", WHOLE)).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert len(pair.first.limiter.accounts) == 1
    finally:
        await pair.first.reload(pair.first.document)
