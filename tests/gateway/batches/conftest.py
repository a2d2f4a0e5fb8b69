from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.batches.site import BatchSite
from tests.gateway.harness import Gateway, running_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keeping_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("batches")
    state = f"sqlite:///{folder / 'state.sqlite'}"
    async with running_gateway(
        folder, state_url=state, webhooks_over_http=True, webhooks_to_private_addresses=True
    ) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def site(keeping_gateway: Gateway) -> AsyncIterator[BatchSite]:
    """A gateway with a state database, and how tests use its batches."""
    keeping_gateway.reset()
    yield BatchSite(keeping_gateway)
    await keeping_gateway.at_rest()
