"""What services say to each other, from outside: without the cluster secret nothing at all."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.authorisation.calls import call_rpc
from tests.authorisation.cluster import Channels, channel_of, running_cluster, secret_of
from tests.authorisation.site import ADMIN_SECRET
from tests.authorisation.surface import every_rpc
from tests.authorisation.table import RPCS, Door
from tests.gateway.harness import running_gateway
from weir_gateway.keys import generate_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_RPC = {rpc.name: rpc for rpc in every_rpc()}
CLUSTER = [name for name, row in RPCS.items() if row.door is Door.CLUSTER]
PRIVATE = [name for name, row in RPCS.items() if row.door is Door.PRIVATE]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def channels(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Channels]:
    folder = tmp_path_factory.mktemp("cluster")
    async with (
        running_gateway(folder) as gateway,
        running_cluster(folder, gateway.app.grpc_address) as channels,
    ):
        yield channels


@pytest.mark.parametrize("name", CLUSTER)
async def test_nobody_calls_it_without_the_cluster_secret(channels: Channels, name: str) -> None:
    secret = secret_of(name)
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
    channels: Channels, name: str
) -> None:
    rpc = EVERY_RPC[name]
    for channel in channels.values():
        told = await call_rpc(channel, rpc, rpc.request_class(), "")
        assert told.code == "UNIMPLEMENTED"
