"""200 requests of 20 clients with random aborts and disconnects: nothing is lost, nothing leaks."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import grpc
import httpx2
import pytest

from tests.e2e.deployment import Deployment
from tests.e2e.narrow import CAPACITY, NARROW_TENANTS, SLOTS
from tests.e2e.wait import until
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import Subject
from weir.gateway.v1.inference_service_pb2 import GenerateRequest, GetRequestRequest, TokenInput

pytestmark = [pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="session")]

REQUESTS, CLIENTS = 200, 20
BLOCKS = 40
TENANTS = tuple(NARROW_TENANTS)


async def test_after_chaos_every_account_is_exact(counting: Deployment) -> None:
    clients = [_Client(counting, number) for number in range(CLIENTS)]
    await asyncio.gather(*(client.run(REQUESTS // CLIENTS) for client in clients))
    await _all_blocks_are_free_or_cached(counting)
    records = await _one_record_each(counting, clients)
    await _every_level_is_exact(counting, records)
    outcomes = Counter(record["outcome"] for record in records)
    assert outcomes["OK"] > 20, outcomes
    assert outcomes["CANCELLED"] + outcomes["CLIENT_GONE"] > 20, outcomes


class _Client:
    """Sends requests one after the other and gives many of them up half-way."""

    def __init__(self, stack: Deployment, number: int) -> None:
        self._stack = stack
        self._tenant = TENANTS[number % 2]
        self._random = random.Random(number)
        self.accepted: set[str] = set()

    async def run(self, requests: int) -> None:
        for _ in range(requests):
            attempt = self._random.choice([self._by_grpc, self._by_grpc, self._by_http])
            while not await attempt():
                await asyncio.sleep(self._random.uniform(0.01, 0.1))

    async def _by_grpc(self) -> bool:
        """Cancels after some deltas, or by a deadline, or not at all. False: refused by a limit."""
        request = GenerateRequest(
            model=self._stack.model,
            token_input=TokenInput(token_ids=self._prompt()),
            max_new_tokens=self._random.randint(1, 90),
            sampling=SamplingParams(temperature=0.0, ignore_eos=True),
            stream=True,
        )
        cancel_after = self._random.choice([None, None, 0, 1, 5, 20])
        timeout = self._random.choice([60.0, 60.0, 60.0, 0.05, 0.3])
        async with self._stack.inference() as stub:
            call = stub.Generate(
                request, metadata=self._stack.metadata(self._tenant), timeout=timeout
            )
            try:
                deltas = 0
                async for response in call:
                    if response.HasField("accepted"):
                        self.accepted.add(response.accepted.request_id)
                    deltas += response.HasField("delta")
                    if cancel_after is not None and deltas >= cancel_after:
                        return True
            except grpc.aio.AioRpcError as error:
                return self._judge(error.code())
            finally:
                call.cancel()
        return True

    def _judge(self, code: grpc.StatusCode) -> bool:
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return False
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED, code
        return True

    async def _by_http(self) -> bool:
        """Reads some of a stream and closes the connection."""
        body = {
            "model": self._stack.model,
            "prompt": self._prompt(),
            "max_tokens": self._random.randint(1, 90),
            "temperature": 0,
            "ignore_eos": True,
            "stream": self._random.random() < 0.8,
        }
        headers = {"authorization": f"Bearer {self._stack.secret(self._tenant)}"}
        leave_after = self._random.choice([None, 0, 1, 4, 12])
        url = f"{self._stack.base_url}/completions"
        async with (
            httpx2.AsyncClient(timeout=60) as client,
            client.stream("POST", url, json=body, headers=headers) as answer,
        ):
            if answer.status_code == 429:
                return False
            assert answer.status_code == 200, await answer.aread()
            self.accepted.add(answer.headers["x-request-id"])
            lines = 0
            async for _ in answer.aiter_lines():
                lines += 1
                if leave_after is not None and lines > leave_after:
                    break
        return True

    def _prompt(self) -> list[int]:
        return [self._random.randrange(10, 250) for _ in range(self._random.randint(1, 150))]


async def _all_blocks_are_free_or_cached(stack: Deployment) -> None:
    def idle(loads: dict[str, Any]) -> bool:
        return all(
            load.held_kv_blocks == 0
            and load.running_requests == 0
            and load.waiting_requests == 0
            and load.free_kv_blocks + load.cached_kv_blocks == BLOCKS
            for load in loads.values()
        )

    await until(stack.loads, idle, "all KV blocks free or cached")
    await until(
        stack.workers,
        lambda views: all(not (v.pending_attempts or v.running_attempts) for v in views),
        "the scheduler's counters at zero",
    )
    assert await stack.queued() == 0


async def _one_record_each(stack: Deployment, clients: list[_Client]) -> list[dict[str, Any]]:
    """The terminal records of the log: exactly one for each accepted request."""
    accepted = set().union(*(client.accepted for client in clients))
    assert len(accepted) >= 100

    async def finished() -> list[dict[str, Any]]:
        lines = (stack.state / "logs" / "gateway.log").read_text().splitlines()
        entries = (json.loads(line) for line in lines if line.startswith("{"))
        ended = (entry for entry in entries if entry.get("event") == "request finished")
        return [entry for entry in ended if entry["tenant_id"] in TENANTS]

    records = await until(
        finished, lambda seen: accepted <= {r["request_id"] for r in seen}, "a record for each"
    )
    counts = Counter(record["request_id"] for record in records)
    assert set(counts.values()) == {1}
    async with stack.inference() as stub:
        for record in records:
            answer = await stub.GetRequest(
                GetRequestRequest(request_id=record["request_id"]),
                metadata=stack.metadata(record["tenant_id"]),
                timeout=10,
            )
            assert answer.terminal
            assert answer.lifecycle.usage.total_tokens == _tokens(record)
    return records


def _tokens(record: dict[str, Any]) -> int:
    return int(record["prompt_tokens"]) + int(record["completion_tokens"])


async def _every_level_is_exact(stack: Deployment, records: list[dict[str, Any]]) -> None:
    """Level = capacity - what the records charge; no lease, no hold is left."""
    for tenant in TENANTS:
        mine = [record for record in records if record["tenant_id"] == tenant]
        tokens = sum(_tokens(record) for record in mine)
        requests = sum(record["attempts"] > 0 for record in mine)
        expected = {
            f"tenant:{tenant}/slots": SLOTS,
            f"tenant:{tenant}/requests": CAPACITY - requests,
            f"tenant:{tenant}/tokens": CAPACITY - tokens,
        }
        subject = Subject(tenant_id=tenant, user_id="user", model=stack.model)

        async def levels(
            subject: Subject = subject, expected: Iterable[str] = expected
        ) -> dict[str, int]:
            limits = await stack.limits(subject)
            assert all(limit.held == 0 for limit in limits.values())
            return {name: limits[name].remaining for name in expected}

        assert await levels() == expected
