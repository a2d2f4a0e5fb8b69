"""What services say to each other, from outside: without the cluster secret nothing at all."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tests.authorisation.calls import call_rpc
from tests.authorisation.site import ADMIN_SECRET
from tests.authorisation.surface import every_rpc
from tests.authorisation.table import RPCS, Door
from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import running_gateway
from tests.scheduler.live import live_scheduler
from tests.worker.server.support import SECRET as WORKER_SECRET
from tests.worker.server.support import running_worker
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.keys import generate_key
from weir_ratelimiter.app import RateLimiterApp
from weir_ratelimiter.settings import RateLimiterSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_RPC = {rpc.name: rpc for rpc in every_rpc()}
CLUSTER = [name for name, row in RPCS.items() if row.door is Door.CLUSTER]
PRIVATE = [name for name, row in RPCS.items() if row.door is Door.PRIVATE]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def channels(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[dict[str, grpc.aio.Channel]]:
    """A channel to each service by the first words of its name."""
    folder = tmp_path_factory.mktemp("cluster")
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_gateway(folder))
        limiter = await _limiter(stack, folder, gateway.app.grpc_address)
        scheduler = await stack.enter_async_context(live_scheduler())
        worker = await stack.enter_async_context(running_worker())
        addresses = {
            "weir.directory": gateway.app.grpc_address,
            "weir.ratelimiter": limiter,
            "weir.scheduler": scheduler.app.address,
            "weir.worker": worker.app.address,
        }
        yield {
            name: await stack.enter_async_context(grpc.aio.insecure_channel(address))
            for name, address in addresses.items()
        }


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


def channel_of(channels: dict[str, grpc.aio.Channel], name: str) -> grpc.aio.Channel:
    return next(channel for prefix, channel in channels.items() if name.startswith(prefix))


@pytest.mark.parametrize("name", CLUSTER)
async def test_nobody_calls_it_without_the_cluster_secret(
    channels: dict[str, grpc.aio.Channel], name: str
) -> None:
    secret = (WORKER_SECRET if "worker" in name else TOKEN.get_secret_value()) or ""
    wrong = [
        "",
        f"Bearer {generate_key('dev').secret}",
        f"Bearer {ADMIN_SECRET}",
        f"Bearer {secret[:-1]}",
        f"Bearer {secret}x",
        f"Basic {secret}",
        secret,
        "Bearer",
    ]
    rpc = EVERY_RPC[name]
    for header in wrong:
        told = await call_rpc(channel_of(channels, name), rpc, rpc.request_class(), header)
        assert (header, told.code) == (header, "UNAUTHENTICATED")
        assert secret not in told.message
        assert generate_key("dev").secret[:8] not in told.message


@pytest.mark.parametrize("name", PRIVATE)
async def test_what_asks_for_no_secret_is_off_unless_it_is_set(
    channels: dict[str, grpc.aio.Channel], name: str
) -> None:
    rpc = EVERY_RPC[name]
    for channel in channels.values():
        told = await call_rpc(channel, rpc, rpc.request_class(), "")
        assert told.code == "UNIMPLEMENTED"
