"""What tests ask of jobs over HTTP."""

import asyncio
from typing import Any

from tests.gateway.harness import MODEL, Gateway

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
ENDS = ("succeeded", "failed", "cancelled", "expired")


async def submit(site: Gateway, *, key: str = "", secret: str = "", **fields: Any) -> Any:
    headers = {"idempotency-key": key} if key else {}
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    response = await site.http.post("/v1/jobs", json={"body": CHAT} | fields, headers=headers)
    assert response.status_code == 202, response.text
    return response.json()


async def read(site: Gateway, job_id: str) -> Any:
    response = await site.http.get(f"/v1/jobs/{job_id}")
    assert response.status_code == 200, response.text
    return response.json()


async def until(site: Gateway, job_id: str, *statuses: str, timeout_s: float = 20.0) -> Any:
    """The job once it is in one of the states."""
    async with asyncio.timeout(timeout_s):
        while (job := await read(site, job_id))["status"] not in (statuses or ENDS):
            await asyncio.sleep(0.02)
    return job
