"""kill -9 of the gateway while jobs run: each has one result and one charge."""

import asyncio
import os
import signal
from collections import defaultdict
from typing import Any

import httpx2
import pytest

from tests.e2e.bill import bill
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

JOBS, PROMPT, OUTPUT = 30, 20, 60
TENANT = "offline"


@pytest.mark.timeout(150)
async def test_jobs_end_once_though_the_gateway_is_killed(counting: Deployment) -> None:
    headers = {"authorization": f"Bearer {counting.secret(TENANT)}"}
    async with httpx2.AsyncClient(base_url=counting.base_url, headers=headers, timeout=10) as http:
        ids = [await _submit(http, counting.model, number) for number in range(JOBS)]
        await until(
            lambda: _jobs(http),
            lambda jobs: _count(jobs, "succeeded") >= 3 and _count(jobs, "running") >= 3,
            "jobs in their middle",
            timeout_s=60,
        )
        os.kill(counting.stack.pids["gateway"], signal.SIGKILL)
        jobs = await until(
            lambda: _jobs(http),
            lambda jobs: _count(jobs, "succeeded") == JOBS,
            "the end of every job",
            timeout_s=90,
        )
    assert {job["id"] for job in jobs} == set(ids)
    assert max(job["attempts"] for job in jobs) > 1
    due = {job["request_id"]: job["usage"]["total_tokens"] for job in jobs}
    assert set(due.values()) == {PROMPT + OUTPUT}
    # What was charged is exactly that: nothing for attempts that died.
    await until(
        lambda: _charged(counting), lambda charged: charged == due, "the charges", timeout_s=45
    )


async def _submit(http: httpx2.AsyncClient, model: str, number: int) -> str:
    body = {"model": model, "prompt": [number + 1] * PROMPT, "max_tokens": OUTPUT}
    response = await http.post("/jobs", json={"endpoint": "/v1/completions", "body": body})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


async def _jobs(http: httpx2.AsyncClient) -> list[Any]:
    """Every job; none while the gateway is away."""
    try:
        response = await http.get("/jobs", params={"page_size": JOBS})
    except httpx2.TransportError:
        await asyncio.sleep(0.1)
        return []
    return list(response.json()["data"]) if response.status_code == 200 else []


def _count(jobs: list[Any], status: str) -> int:
    return sum(job["status"] == status for job in jobs)


async def _charged(stack: Deployment) -> dict[str, int]:
    """Tokens that each request of the tenant was charged, corrections included; zeros left out."""
    charged: dict[str, int] = defaultdict(int)
    for row in await bill(stack):
        if row.tenant == TENANT:
            charged[row.request_id] += row.tokens
    return {request_id: tokens for request_id, tokens in charged.items() if tokens}
