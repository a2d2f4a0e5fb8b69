"""A limit that ends in mid-stream: the real SDK, the real account, and the bill agree."""

from typing import Any

import openai
import pytest

from tests.e2e.bill import Row, bill
from tests.e2e.deployment import Deployment
from tests.e2e.quota import BUDGET, HELD, MOST_DEBT
from tests.e2e.wait import until
from weir.common.v1.subject_pb2 import Subject
from weir_client import AsyncClient, LimitExceeded

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Tokens that a worker may still make between the last one that fits and the abort: half a second
# of its steps, for a machine on which others have the processors.
SLACK = 100


async def stopped(stack: Deployment, tenant: str) -> tuple[list[Any], Any]:
    """The chunks of a stream that a limit ended, and the error that came after them."""
    client = openai.AsyncOpenAI(
        base_url=stack.base_url, api_key=stack.secret(tenant), max_retries=0
    )
    chunks: list[Any] = []
    async with client:
        stream = await client.chat.completions.create(
            model=stack.model,
            messages=[{"role": "user", "content": "x"}],
            max_tokens=500,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        with pytest.raises(openai.APIError) as caught:
            await _read(stream, chunks)
    return chunks, caught.value.body


async def row_of(stack: Deployment, tenant: str, outcome: str = "quota_stopped") -> Row:
    """The only row of a tenant, once it is there."""

    async def mine() -> list[Row]:
        return [row for row in await bill(stack) if row.tenant == tenant]

    (row,) = await until(mine, lambda rows: bool(rows), "a row")
    assert row.exact
    assert row.outcome == outcome
    return row


async def left(stack: Deployment, tenant: str, limit_id: str) -> int:
    limits = await stack.limits(Subject(tenant_id=tenant, user_id="user", model=stack.model))
    return limits[f"tenant:{tenant}/{limit_id}"].remaining


async def test_a_stream_stops_when_its_tokens_are_used(counting: Deployment) -> None:
    chunks, error = await stopped(counting, "stopping")
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    usage = chunks[-1].usage
    assert HELD <= usage.total_tokens <= HELD + SLACK
    assert (error["code"], error["limit_id"]) == ("quota_stopped", "tenant:stopping/tokens")
    row = await row_of(counting, "stopping")
    assert (row.prompt, row.completion) == (usage.prompt_tokens, usage.completion_tokens)
    assert await left(counting, "stopping", "tokens") == HELD - row.tokens


async def test_over_grpc_too(counting: Deployment) -> None:
    tenant = "stopping-grpc"
    client = AsyncClient(counting.grpc_address, counting.secret(tenant))
    async with (
        client,
        client.generate(counting.model, prompt="x", max_new_tokens=500, ignore_eos=True) as answer,
    ):
        with pytest.raises(LimitExceeded) as caught:
            [piece async for piece in answer]
    assert caught.value.reason == "QUOTA_STOPPED"
    assert caught.value.violations[0].limit_id == f"tenant:{tenant}/tokens"
    assert answer.finish_reason == "length"
    assert answer.usage is not None
    row = await row_of(counting, tenant)
    assert row.completion == answer.usage.completion_tokens


async def test_debt_is_bounded_and_kept(counting: Deployment) -> None:
    chunks, error = await stopped(counting, "owing")
    assert error["code"] == "quota_stopped"
    row = await row_of(counting, "owing")
    assert row.completion == chunks[-1].usage.completion_tokens
    remaining = await left(counting, "owing", "tokens")
    assert remaining == HELD - row.tokens
    assert -(MOST_DEBT + SLACK) <= remaining < 0


async def test_an_exhausted_budget_is_money_and_not_to_be_retried(counting: Deployment) -> None:
    client = openai.AsyncOpenAI(
        base_url=counting.base_url, api_key=counting.secret("paying"), max_retries=2
    )
    async with client:
        await client.completions.create(model=counting.model, prompt="x", max_tokens=50)
        # The answer waits for its settlement only for so long: until then all of it is held.
        row = await row_of(counting, "paying", "ok")
        with pytest.raises(openai.RateLimitError) as caught:
            await client.completions.create(model=counting.model, prompt="x", max_tokens=50)
    remaining = await left(counting, "paying", "budget")
    assert remaining == round(BUDGET * 10**9) - row.nanos
    body: Any = caught.value.body
    assert (body["code"], body["limit_type"]) == ("insufficient_quota", "budget")
    assert (body["unit"], body["resource"]) == ("currency_nanos", "cost_per_month")
    assert (body["limit"], body["used"]) == (round(BUDGET * 10**9), row.nanos)
    assert body["reset_time"] is not None
    headers = caught.value.response.headers
    assert headers["x-should-retry"] == "false"
    assert "retry-after" not in headers
    assert headers["x-ratelimit-resource-budget"] == "cost_per_month"
    assert headers["x-ratelimit-remaining-budget"] == str(remaining)


async def _read(stream: Any, chunks: list[Any]) -> None:
    async for chunk in stream:
        chunks.append(chunk)  # noqa: PERF401 - what came before an error is kept
