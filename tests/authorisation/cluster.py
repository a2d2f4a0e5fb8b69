"""The services behind the gateway, each real and in this process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.gateway.fake_server import TOKEN
from tests.scheduler.live import live_scheduler
from tests.worker.server.support import SECRET as WORKER_SECRET
from tests.worker.server.support import running_worker
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter.app import RateLimiterApp
from weir_ratelimiter.settings import RateLimiterSettings

Channels = dict[str, grpc.aio.Channel]


@asynccontextmanager
async def running_cluster(folder: Path, gateway: str) -> AsyncIterator[Channels]:
    """A channel to each service by the first words of its name; `gateway` is an address."""
    async with AsyncExitStack() as stack:
        scheduler = await stack.enter_async_context(live_scheduler())
        worker = await stack.enter_async_context(running_worker())
        addresses = {
            "weir.directory": gateway,
            "weir.gateway": gateway,
            "weir.process": gateway,
            "weir.ratelimiter": await _limiter(stack, folder, gateway),
            "weir.scheduler": scheduler.app.address,
            "weir.worker": worker.app.address,
        }
        yield {
            name: await stack.enter_async_context(grpc.aio.insecure_channel(address))
            for name, address in addresses.items()
        }


def channel_of(channels: Channels, name: str) -> grpc.aio.Channel:
    """The channel to the service of an RPC."""
    return next(channel for prefix, channel in channels.items() if name.startswith(prefix))


def secret_of(name: str) -> str:
    """The cluster secret of the service of an RPC."""
    return WORKER_SECRET if "worker" in name else TOKEN.get_secret_value()


async def _limiter(stack: AsyncExitStack, folder: Path, directory: str) -> str:
    settings: dict[str, Any] = {
        "address": "127.0.0.1:0",
        "journal": str(folder / "journal"),
        "directory_address": directory,
        "cluster_token": TOKEN,
    }
    telemetry = Telemetry(Tracing("ratelimiter"), create_registry())
    app = RateLimiterApp(RateLimiterSettings(**settings), telemetry)
    stack.push_async_callback(app.stop)
    await app.start()
    port = app.server.add_insecure_port("127.0.0.1:0")
    await app.server.start()
    stack.push_async_callback(app.server.stop, 0)
    stack.push_async_callback(app.drain)
    return f"127.0.0.1:{port}"
