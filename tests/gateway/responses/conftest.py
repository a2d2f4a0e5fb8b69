from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway
from tests.gateway.state_databases import state
from tests.gateway.tool_site import tool_gateway

__all__ = ["state"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keeping_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("responses")
    state = f"sqlite:///{folder / 'state.sqlite'}"
    async with tool_gateway(folder, state_url=state) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(keeping_gateway: Gateway) -> AsyncIterator[Gateway]:
    """A gateway with a state database, whose model writes calls as Hermes does."""
    keeping_gateway.reset()
    yield keeping_gateway
    await keeping_gateway.at_rest()
