"""`GET /v1/limits`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.harness import MODEL, Gateway, running_gateway
from weir.common.v1.refusal_pb2 import Refusal, Violation
from weir.common.v1.subject_pb2 import DeliveryMode
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as rl

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("limits")
    async with running_gateway(folder) as running:
        yield running


def account() -> rl.ExplainResponse:
    tokens = rl.LimitStatus(
        limit_id="tenant:acme/tpm",
        limit_type="tpm",
        resource="tokens",
        layer="tenant",
        limit=1_000,
        remaining=-20,
        held=5,
        used_last_minute=1_020,
    )
    tokens.reset_time.FromMilliseconds(1_767_225_600_250)
    return rl.ExplainResponse(
        limiter_mode=rl.LimiterMode.LIMITER_MODE_DEGRADED,
        limits=[
            tokens,
            rl.LimitStatus(
                limit_id="tenant:acme/budget_per_month",
                limit_type="budget",
                resource="cost_per_month",
                layer="tenant",
                limit=10**9,
                remaining=0,
                window="2026-01",
            ),
            rl.LimitStatus(limit_id="cluster/tpm", limit_type="tpm", resource="tokens"),
            rl.LimitStatus(limit_id="tenant:acme/trial", resource="tokens", shadow=True, limit=1),
        ],
    )


async def test_a_caller_sees_its_own_account(gateway: Gateway) -> None:
    gateway.limiter.explanation = account()
    response = await gateway.http.get("/v1/limits")
    assert response.status_code == 200
    assert response.headers["x-request-id"]
    page = response.json()
    assert page["mode"] == "degraded"
    assert "request" not in page
    tokens, budget, cluster = page["data"]
    assert tokens == {
        "id": "tenant:acme/tpm",
        "limit_type": "tpm",
        "layer": "tenant",
        "resource": "tokens",
        "unit": "tokens",
        "limit": 1_000,
        "remaining": -20,
        "held": 5,
        "used_last_minute": 1_020,
        "reset_time": "2026-01-01T00:00:00.250Z",
        "window": None,
    }
    assert (budget["unit"], budget["window"]) == ("currency_nanos", "2026-01")
    assert (cluster["limit"], cluster["remaining"], cluster["held"]) == (None, None, None)
    subject = gateway.limiter.explained[-1].subject
    assert (subject.tenant_id, subject.user_id) == ("acme", "alice")
    assert subject.api_key_id == gateway.key.id
    assert not gateway.limiter.explained[-1].HasField("hypothetical")


async def test_a_hypothetical_request_is_answered_as_a_refusal_would_be(gateway: Gateway) -> None:
    gateway.limiter.explanation = account()
    violation = Violation(limit_id="tenant:acme/tpm", limit_type="tpm", resource="tokens", used=9)
    gateway.limiter.explanation.refusal.CopyFrom(Refusal(violations=[violation]))
    query = "model=small&prompt_tokens=30&max_tokens=12&stream=true"
    page = (await gateway.http.get(f"/v1/limits?{query}")).json()
    assert page["request"]["admissible"] is False
    (refused_by,) = page["request"]["refused_by"]
    assert (refused_by["limit_id"], refused_by["used"]) == ("tenant:acme/tpm", 9)
    asked = gateway.limiter.explained[-1]
    assert asked.subject.model == MODEL
    assert (asked.hypothetical.prompt_tokens, asked.hypothetical.max_new_tokens) == (30, 12)
    assert asked.hypothetical.mode == DeliveryMode.DELIVERY_MODE_STREAM


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("model=none", 404, None),
        ("tenant=globex", 400, "tenant"),
        ("prompt_tokens=5&max_tokens=5", 400, "model"),
        ("model=tiny&prompt_tokens=5", 400, "max_tokens"),
        ("model=tiny&max_tokens=5", 400, "prompt_tokens"),
        ("model=tiny&prompt_tokens=-1&max_tokens=5", 400, "prompt_tokens"),
        ("model=tiny&prompt_tokens=NaN&max_tokens=5", 400, "prompt_tokens"),
        ("model=tiny&prompt_tokens=99999999999999999999&max_tokens=5", 400, "prompt_tokens"),
        ("model=tiny&prompt_tokens=1&max_tokens=5&stream=maybe", 400, "stream"),
    ],
)
async def test_a_bad_query_is_named(
    gateway: Gateway, query: str, status: int, field: str | None
) -> None:
    asked = len(gateway.limiter.explained)
    response = await gateway.http.get(f"/v1/limits?{query}")
    error: dict[str, Any] = response.json()["error"]
    assert response.status_code == status
    assert field is None or error["param"] == field
    assert len(gateway.limiter.explained) == asked


async def test_reading_takes_no_place_of_a_generation(gateway: Gateway) -> None:
    gateway.limiter.explanation = account()
    slow = {"resource": "requests", "rate": "3/min"}
    first, *others = gateway.document["tenants"]
    await gateway.reload(gateway.document | {"tenants": [first | {"limits": [slow]}, *others]})
    try:
        reads = [await gateway.http.get("/v1/limits") for _ in range(4)]
        assert [read.status_code for read in reads] == [200, 200, 200, 429]
        assert (
            "that reserve nothing, such as GET /v1/limits" in reads[-1].json()["error"]["message"]
        )
        assert [(await gateway.chat()).status_code for _ in range(4)] == [200, 200, 200, 429]
    finally:
        await gateway.reload(gateway.document)


async def test_it_needs_a_key_and_a_limiter(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/limits", headers={"authorization": ""})
    assert response.status_code == 401
    await gateway.limiter.server.stop()
    response = await gateway.http.get("/v1/limits")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "limiter_unavailable")
    assert int(response.headers["retry-after"]) >= 1
    await gateway.limiter.server.start()
