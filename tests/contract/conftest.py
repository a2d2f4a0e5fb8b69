from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contract.site import Site, contract_site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with contract_site(tmp_path_factory.mktemp("contract")) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def site(module_site: Site) -> AsyncIterator[Site]:
    """One gateway for a module's tests, back to its defaults for each, and at rest after each."""
    module_site.gateway.reset()
    yield module_site
    await module_site.gateway.at_rest()
