"""Stores on both databases, and two gateways that share one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway
from tests.gateway.state_databases import state

__all__ = ["state"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_pair(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Gateway, Gateway]]:
    folder = tmp_path_factory.mktemp("pair")
    url = f"sqlite:///{folder}/state.sqlite"
    async with (
        running_gateway(folder / "one", workers=2, state_url=url) as one,
        running_gateway(folder / "two", workers=1, state_url=url) as two,
    ):
        yield one, two


@pytest_asyncio.fixture(loop_scope="module")
async def pair(shared_pair: tuple[Gateway, Gateway]) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways with one state, back to their defaults for each test."""
    for gateway in shared_pair:
        gateway.reset()
    yield shared_pair
    for gateway in shared_pair:
        await gateway.at_rest()
