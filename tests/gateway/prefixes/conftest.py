"""A gateway with two workers and a state database, and stores on both databases."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway
from tests.gateway.state_databases import state

__all__ = ["state"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("prefixes")
    url = f"sqlite:///{folder}/state.sqlite"
    async with running_gateway(folder, workers=2, state_url=url) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(shared_gateway: Gateway) -> AsyncIterator[Gateway]:
    shared_gateway.reset()
    yield shared_gateway
    await shared_gateway.at_rest()
