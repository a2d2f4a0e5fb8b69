"""A thousand live requests: every answer stays small, and the pages hold each of them once."""

import asyncio
from pathlib import Path
from typing import Any

from tests.gateway.console.browser import ADMIN_SECRET, Browser, browser
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from weir.gateway.v1.inference_service_pb2 import GenerateRequest

_REQUESTS = 1_000
_PAGE = 200
_MOST_BYTES = 120_000


def _many(document: dict[str, Any]) -> None:
    document["plans"][0]["limits"] = [{"resource": "requests", "rate": "10000/s"}]


async def test_a_thousand_live_requests(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, admin_secret=ADMIN_SECRET, change=_many) as gateway,
        browser(gateway, ADMIN_SECRET) as one,
    ):
        gateway.scheduler.hold = True
        calls = [asyncio.create_task(_generate(gateway)) for _ in range(_REQUESTS)]
        edge = gateway.app.edge
        assert edge is not None
        await eventually(lambda: len(gateway.scheduler.enqueued) == _REQUESTS, 60)
        seen = await _every_id(one)
        assert len(seen) == len(set(seen)) == _REQUESTS
        for path in ("overview", "tenants/acme", "history", "tenants"):
            answer = await one.get(path)
            assert answer.status_code == 200
            assert len(answer.content) < _MOST_BYTES, path
        assert (await one.get("tenants/acme")).json()["in_flight"] == _REQUESTS
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await eventually(lambda: len(edge.records) == 0, 60)


async def _every_id(one: Browser) -> list[str]:
    """By pages of the live ones."""
    found: list[str] = []
    token = ""
    while True:
        query = {"state": "live", "page_size": _PAGE, "page_token": token}
        answer = await one.get("requests", params=query)
        page = answer.json()
        assert len(answer.content) < _MOST_BYTES
        assert len(page["requests"]) <= _PAGE
        found += [request["request_id"] for request in page["requests"]]
        token = page["next_page_token"]
        if not token:
            return found


async def _generate(gateway: Gateway) -> None:
    request = GenerateRequest(model=MODEL, prompt="hi", max_new_tokens=2, stream=True)
    stream: Any = gateway.stub.Generate(request, metadata=gateway.metadata)
    try:
        await stream.read()
        await stream.read()
        await stream.read()
    finally:
        stream.cancel()
