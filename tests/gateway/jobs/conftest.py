from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway
from tests.gateway.state_databases import state

__all__ = ["state"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("jobs")
    url = f"sqlite:///{folder}/state.sqlite"
    async with running_gateway(
        folder, state_url=url, webhooks_over_http=True, webhooks_to_private_addresses=True
    ) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def site(shared_site: Gateway) -> AsyncIterator[Gateway]:
    """A gateway that keeps jobs, for a module's tests; back to its defaults for each."""
    shared_site.reset()
    yield shared_site
    await shared_site.at_rest()
