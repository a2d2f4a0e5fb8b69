from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.degradation.site import with_fallbacks
from tests.gateway.harness import Gateway, running_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    async with running_gateway(folder, change=with_fallbacks) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(shared_gateway: Gateway) -> AsyncIterator[Gateway]:
    """One gateway whose tenant allows every degradation, back to that for each test."""
    shared_gateway.reset()
    await shared_gateway.reload(shared_gateway.document)
    yield shared_gateway
    await shared_gateway.at_rest()
