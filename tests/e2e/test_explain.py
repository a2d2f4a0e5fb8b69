"""What became of requests on the whole stack, told by their ids: by RPC and by `weir explain`."""

import asyncio
import json
from typing import Any

import grpc
import httpx2
import pytest

from tests.cli.command import Ended, weir
from tests.e2e.bill import bill
from tests.e2e.deployment import Deployment
from tests.e2e.quota import HELD
from tests.e2e.wait import until
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.insight_service_pb2 import (
    ExplainRequestRequest,
    Explanation,
    GetConfigurationRequest,
    GetKvMapRequest,
    RequestState,
)
from weir.gateway.v1.insight_service_pb2_grpc import InsightServiceStub
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason

pytestmark = pytest.mark.asyncio(loop_scope="session")


def client(stack: Deployment, tenant: str) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {stack.secret(tenant)}"}
    return httpx2.AsyncClient(base_url=stack.base_url, headers=headers, timeout=60)


async def chat(http: httpx2.AsyncClient, stack: Deployment, tokens: int) -> httpx2.Response:
    body: dict[str, Any] = {
        "model": stack.model,
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    return await http.post("/chat/completions", json=body)


def admin(stack: Deployment) -> tuple[tuple[str, str], ...]:
    secret = (stack.state / "admin_secret").read_text().strip()
    return (("authorization", f"Bearer {secret}"),)


async def explain(stack: Deployment, request_id: str, metadata: Any = None) -> Explanation:
    async with grpc.aio.insecure_channel(stack.grpc_address) as channel:
        answer = await InsightServiceStub(channel).ExplainRequest(
            ExplainRequestRequest(request_id=request_id),
            metadata=metadata or admin(stack),
            timeout=20,
        )
    return answer.explanation


async def command(stack: Deployment, *arguments: str) -> Ended:
    return await asyncio.to_thread(weir, "explain", *arguments, "--state-dir", str(stack.state))


async def test_a_wait_and_its_charge_are_told(counting: Deployment) -> None:
    async with client(counting, "explained") as http:
        both = await asyncio.gather(*(chat(http, counting, 60) for _ in range(2)))
    ids = [str(answer.headers["x-request-id"]) for answer in both]

    async def charged() -> list[Explanation]:
        return [await explain(counting, request_id) for request_id in ids]

    told = await until(charged, lambda all_: all(t.HasField("charge") for t in all_), "charges")
    # The one that runs first may have waited too, for a slot of a busy worker.
    waited = next(
        one
        for one in told
        if any(e.queue_reason == QueueReason.QUEUE_REASON_TENANT_CAP for e in one.events)
    )
    assert any("`max_running_requests` of the tenant's policy" in s for s in waited.sentences)
    rows = [row for row in await bill(counting) if row.tenant == "explained"]
    assert sum(one.charge.usage.total_tokens for one in told) == sum(
        row.prompt + row.completion for row in rows
    )
    names = [phase.name for phase in waited.phases]
    assert names == ["intake", "reserve", "queue", "dispatch", "prefill", "decode", "settle"]
    printed = await command(counting, waited.request_id)
    assert printed.returncode == 0, printed.stderr
    assert f"request {waited.request_id}: ended" in printed.stdout
    assert "TENANT_CAP" in printed.stdout
    assert "#" in printed.stdout
    as_json = json.loads((await command(counting, waited.request_id, "-o", "json")).stdout)
    assert as_json["request_id"] == waited.request_id


async def test_a_stop_by_quota_and_the_refusal_after_it_are_told(counting: Deployment) -> None:
    async with client(counting, "explained-stop") as http:
        stopped = await chat(http, counting, 500)
        refused = await chat(http, counting, 500)
    told = await explain(counting, str(stopped.headers["x-request-id"]))
    assert told.lifecycle.outcome == Outcome.OUTCOME_QUOTA_STOPPED
    (violation,) = told.refusal.violations
    assert (violation.limit_id, violation.limit) == ("tenant:explained-stop/tokens", HELD)
    assert any("More output was refused" in sentence for sentence in told.sentences)
    assert refused.status_code == 429
    request_id = str(refused.headers["x-request-id"])
    told = await explain(counting, request_id)
    assert told.state == RequestState.REQUEST_STATE_REFUSED
    assert told.refusal.message == refused.json()["error"]["message"]
    assert told.refusal.violations[0].knob == refused.json()["error"]["knob"]
    printed = await command(counting, request_id)
    assert "It was refused (TOKEN_LIMIT_EXCEEDED)" in printed.stdout
    allowed = f"allows 1 tokens per day, burst {HELD}"
    assert f"Limit tenant:explained-stop/tokens {allowed}" in printed.stdout
    own = await explain(counting, request_id, counting.metadata("explained-stop"))
    assert own.sentences == told.sentences
    with pytest.raises(grpc.aio.AioRpcError) as nobody:
        await explain(counting, request_id, counting.metadata("explained"))
    assert nobody.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_client_that_leaves_is_told(counting: Deployment) -> None:
    # The answer takes seconds; on a busy machine it may have ended before the client left.
    told = await until(
        lambda: _left_early(counting),
        lambda one: one.lifecycle.outcome == Outcome.OUTCOME_CLIENT_GONE,
        "a client that left in the middle",
        60,
    )
    assert told.charge.usage == told.terminal.usage
    assert any("the client closed the connection" in sentence for sentence in told.sentences)


async def _left_early(stack: Deployment) -> Explanation:
    """What is told of a request whose client left after the first piece."""
    body: dict[str, Any] = {
        "model": stack.model,
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 500,
        "stream": True,
        "ignore_eos": True,
    }
    async with (
        client(stack, "explained") as http,
        http.stream("POST", "/chat/completions", json=body) as response,
    ):
        request_id = str(response.headers["x-request-id"])
        async for _ in response.aiter_bytes():
            break
        running = await explain(stack, request_id)
        if running.state == RequestState.REQUEST_STATE_RUNNING:
            assert running.lifecycle.worker_id in running.sentences[0]

    async def account() -> Explanation:
        return await explain(stack, request_id)

    return await until(account, lambda one: one.HasField("charge"), "its charge")


async def test_blocks_and_settings_of_the_stack_are_told(counting: Deployment) -> None:
    (worker,) = await counting.workers()
    async with grpc.aio.insecure_channel(counting.grpc_address) as channel:
        stub = InsightServiceStub(channel)
        request = GetKvMapRequest(worker_id=worker.registration.worker_id)
        blocks = (await stub.GetKvMap(request, metadata=admin(counting), timeout=20)).map
        answer = await stub.GetConfiguration(
            GetConfigurationRequest(), metadata=admin(counting), timeout=20
        )
    assert blocks.known
    assert blocks.total_blocks == sum(blocks.lengths) == worker.registration.total_kv_blocks == 40
    assert {service.service for service in answer.services} == {
        *("gateway", "ratelimiter", "scheduler", "worker")
    }
    assert not [service.error for service in answer.services if service.error]
    of_worker = next(s.settings for s in answer.services if s.service == "worker")
    steps = next(one for one in of_worker.settings if one.name == "null_step_us")
    assert (steps.value_json, steps.source) == ("5000", 3), "from the environment"
    text = str(answer)
    for name in ("cluster_secret", "admin_secret"):
        assert (counting.state / name).read_text().strip() not in text


async def test_what_nobody_knows_is_one_line(counting: Deployment) -> None:
    ended = await command(counting, "req_" + "0" * 32)
    assert ended.returncode == 1
    assert "no gateway remembers such a request" in ended.stderr
