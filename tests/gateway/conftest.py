from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path_factory.mktemp("gateway"), workers=2) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(shared_gateway: Gateway) -> AsyncIterator[Gateway]:
    """One gateway with two workers for a module's tests, back to its defaults for each."""
    shared_gateway.reset()
    yield shared_gateway
    await shared_gateway.at_rest()
