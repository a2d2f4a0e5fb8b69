"""One Usage record feeds limiter, fair queue, KV and bill: by request id they say the same."""

from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.bill import Row
from tests.e2e.counted import CAPACITY, MONEY, books_closed
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until
from tests.e2e.workers import terminal_records
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1.inference_service_pb2 import ChatInput, ChatMessage, GenerateRequest
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest, ReservationState
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]

TENANT = "reconciled"
BLOCK = 16
# Of the fair queue: the weight of an uncached prompt token and of an output token.
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2
INPUT_NANOS, CACHED_NANOS, OUTPUT_NANOS = 150, 50, 600


@dataclass(frozen=True)
class Accounts:
    """What each account of the tenant stands at."""

    tokens: int
    requests: int
    money: int
    service: int


async def test_limiter_queue_kv_and_bill_agree_by_request_id(counting: Deployment) -> None:
    cached = []
    for question in ("one?", "two?"):
        before = await _accounts(counting)
        request_id, told = await _ask(counting, question)
        row = await _row(counting, request_id)
        uncached = told.prompt_tokens - told.cached_prompt_tokens
        due = Accounts(
            tokens=before.tokens - told.total_tokens,
            requests=before.requests - 1,
            money=before.money
            - uncached * INPUT_NANOS
            - told.cached_prompt_tokens * CACHED_NANOS
            - told.completion_tokens * OUTPUT_NANOS,
            service=before.service
            + uncached * PROMPT_WEIGHT
            + told.completion_tokens * OUTPUT_WEIGHT,
        )
        # The scheduler hears of the end at its own time.
        await until(lambda: _accounts(counting), due.__eq__, str(due))
        assert (row.prompt, row.cached, row.completion) == _numbers(told)
        assert row.nanos == before.money - due.money
        assert await _settled(counting, row) == _numbers(told)
        assert await _ran(counting, request_id) == _numbers(told)
        cached.append(told.cached_prompt_tokens)
    # The second question finds the system message of the first in the KV cache: whole blocks.
    assert cached[0] == 0
    assert cached[1] >= 64
    assert cached[1] % BLOCK == 0
    await _no_block_is_held(counting)


async def _ask(stack: Deployment, question: str) -> tuple[str, Usage]:
    messages = [
        ChatMessage(role="system", content="You count. " * 20),
        ChatMessage(role="user", content=question),
    ]
    request = GenerateRequest(
        model=stack.model,
        chat=ChatInput(messages=messages),
        max_new_tokens=9,
        sampling=SamplingParams(ignore_eos=True),
        stream=True,
    )
    async with stack.inference() as stub:
        call = stub.Generate(request, metadata=stack.metadata(TENANT), timeout=60)
        last = [response async for response in call][-1]
    return last.finished.lifecycle.request_id, last.finished.usage


async def _row(stack: Deployment, request_id: str) -> Row:
    rows = await books_closed(stack, [TENANT])
    (row,) = [row for row in rows if row.request_id == request_id]
    return row


async def _accounts(stack: Deployment) -> Accounts:
    subject = Subject(tenant_id=TENANT, user_id="user", model=stack.model)
    limits = await stack.limits(subject)
    left = {name: limits[f"tenant:{TENANT}/{name}"] for name in ("tokens", "requests", "budget")}
    assert left["tokens"].limit == CAPACITY
    assert left["budget"].limit == MONEY
    return Accounts(
        tokens=left["tokens"].remaining,
        requests=left["requests"].remaining,
        money=left["budget"].remaining,
        service=await _service(stack),
    )


async def _service(stack: Deployment) -> int:
    """Weighted tokens that the fair queue has charged to the tenant."""
    async with httpx2.AsyncClient() as http:
        address = stack.stack.welcome.metrics["scheduler"]
        text = (await http.get(f"http://{address}/metrics", timeout=10)).text
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "weir_scheduler_service_tokens_total"
        and sample.labels["tenant"] == TENANT
    )


async def _settled(stack: Deployment, row: Row) -> tuple[int, int, int]:
    """What the limiter says of the reservation."""
    request = ExplainRequest(subject=Subject(tenant_id=TENANT), reservation_id=row.reservation_id)
    async with stack.inside("ratelimiter") as channel:
        answer = await RateLimiterServiceStub(channel).Explain(request, timeout=10)
    assert answer.reservation.request_id == row.request_id
    assert answer.reservation.state == ReservationState.RESERVATION_STATE_SETTLED
    return _numbers(answer.reservation.settlement.charged)


async def _ran(stack: Deployment, request_id: str) -> tuple[int, int, int]:
    """What the worker's record says: each token of it was one of its KV cache."""
    records = await terminal_records(stack, [request_id])
    return _numbers(records[request_id].usage)


async def _no_block_is_held(stack: Deployment) -> None:
    def idle(loads: dict[str, Any]) -> bool:
        return all(
            load.held_kv_blocks == 0 and load.free_kv_blocks + load.cached_kv_blocks == 40
            for load in loads.values()
        )

    await until(stack.loads, idle, "all KV blocks free or cached")


def _numbers(usage: Usage) -> tuple[int, int, int]:
    return usage.prompt_tokens, usage.cached_prompt_tokens, usage.completion_tokens
