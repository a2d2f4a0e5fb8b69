"""A ratelimiter that has just started: gateways take it for ready once it knows its limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.core.support import eventually
from tests.ratelimiter.account import directory, tpm
from tests.ratelimiter.directory_server import Directory, directory_server
from tests.ratelimiter.test_service import ask
from weir_core.errors import Reason, WeirError
from weir_core.rpc.channel import open_channel
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.links.limiter import Limiter
from weir_ratelimiter.app import RateLimiterApp
from weir_ratelimiter.settings import RateLimiterSettings

TOKEN = SecretStr("a cluster secret for this test alone")


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[tuple[Directory, Limiter]]:
    """A ratelimiter, the directory that it follows, and a gateway's end of it."""
    async with directory_server() as (served, address):
        settings: dict[str, Any] = {
            "journal": str(folder / "journal"),
            "directory_address": address,
            "cluster_token": TOKEN,
        }
        app = RateLimiterApp(
            RateLimiterSettings(**settings), Telemetry(Tracing("test"), create_registry())
        )
        port = app.server.add_insecure_port("127.0.0.1:0")
        channel = open_channel(f"127.0.0.1:{port}", name="ratelimiter", token=TOKEN)
        limiter = Limiter(channel, timeout_s=20)
        try:
            await app.start()
            await app.server.start()
            limiter.start()
            yield served, limiter
        finally:
            await limiter.stop()
            await channel.close()
            await app.drain()
            await app.server.stop(0)
            await app.stop()


async def test_it_is_heard_of_once_it_knows_its_limits(tmp_path: Path) -> None:
    """Before, every request would be refused: a stack that says it is up must not do that."""
    async with started(tmp_path) as (served, limiter):
        with pytest.raises(WeirError, match="has not received the directory of limits") as caught:
            await limiter.reserve(ask())
        assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
        assert not limiter.heard
        await served.publish(directory(tpm(1_000)))
        await eventually(lambda: limiter.heard)
        assert (await limiter.reserve(ask())).output_tokens == 20
