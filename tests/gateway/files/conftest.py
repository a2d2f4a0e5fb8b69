from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """One gateway with a state of its own for a module's tests."""
    folder = tmp_path_factory.mktemp("files")
    async with running_gateway(folder, state_url=f"sqlite:///{folder}/state.sqlite") as gateway:
        yield gateway
