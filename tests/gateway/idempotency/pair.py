"""Two gateways with one limiter, one fleet, one directory and one state database."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import httpx2
from prometheus_client import CollectorRegistry

from tests.gateway.endings import BODY
from tests.gateway.fake_scheduler import FakeScheduler
from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import Gateway, running_gateway
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.app import GatewayApp
from weir_gateway.settings import GatewaySettings

CHAT = "/v1/chat/completions"
WHOLE = BODY | {"stream": False, "max_tokens": 4}
STREAM = BODY | {"max_tokens": 4, "stream_options": {"include_usage": True}}


@dataclass
class Pair:
    first: Gateway
    second: Gateway
    counts: CollectorRegistry
    """Of the second."""

    def counted(self, result: str) -> float:
        """Calls to the second gateway that ended so."""
        name = "weir_gateway_idempotent_requests_total"
        return self.counts.get_sample_value(name, {"result": result}) or 0.0

    @property
    def runs(self) -> int:
        return len(self.first.worker.specs)

    @property
    def charges(self) -> int:
        return sum(len(account.settles) for account in self.first.limiter.accounts.values())

    def reset(self) -> None:
        self.first.reset()
        self.second.scheduler.reset()

    async def at_rest(self) -> None:
        await self.first.at_rest()
        await self.second.at_rest()


@asynccontextmanager
async def running_pair(tmp_path: Path, url: str, **settings: Any) -> AsyncIterator[Pair]:
    registry = create_registry()
    async with (
        running_gateway(tmp_path, state_url=url, **settings) as first,
        gateway_beside(first, registry, state_url=url, **settings) as second,
    ):
        yield Pair(first, second, registry)


@asynccontextmanager
async def gateway_beside(
    first: Gateway, registry: CollectorRegistry | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """Another gateway, with a scheduler stream of its own, on the same limiter and workers."""
    scheduler = FakeScheduler(first.workers)
    await scheduler.server.start()
    options: dict[str, Any] = {
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "ratelimiter_address": first.limiter.server.address,
        "scheduler_address": scheduler.server.address,
        "directory_file": str(first.directory),
        "directory_poll_s": 3600.0,
        "cluster_token": TOKEN,
        "abort_wait_s": 5.0,
        "limiter_timeout_s": 5.0,
    }
    registry = registry or create_registry()
    telemetry = Telemetry(tracing=Tracing("gateway"), registry=registry)
    app = GatewayApp(GatewaySettings(**(options | settings)), telemetry)
    try:
        await app.start()
        assert app.edge is not None
        await app.edge.scheduler.wait_connected(10)
        headers = {"authorization": f"Bearer {first.key.secret}"}
        async with (
            httpx2.AsyncClient(
                base_url=f"http://{app.http_address}", headers=headers, timeout=20
            ) as http,
            grpc.aio.insecure_channel(app.grpc_address) as channel,
        ):
            yield replace(first, app=app, scheduler=scheduler, http=http, channel=channel)
    finally:
        await app.stop()
        await scheduler.server.stop()


async def post(
    gateway: Gateway, key: str, body: dict[str, Any], path: str = CHAT, **headers: str
) -> httpx2.Response:
    return await gateway.http.post(path, json=body, headers={"idempotency-key": key, **headers})


def reason_of(response: httpx2.Response) -> str:
    return str(json.loads(response.content)["error"]["reason"])


async def answered(gateway: Gateway, key: str, body: dict[str, Any]) -> httpx2.Response:
    async with asyncio.timeout(60):
        while (response := await post(gateway, key, body)).status_code in (409, 503):
            await asyncio.sleep(0.02)
    return response
