from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.idempotency.pair import Pair, running_pair
from tests.ratelimiter.postgres import Postgres


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgresql"])
async def url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('state')}/state.sqlite"
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    made = await server.new_database()
    yield made
    server.give_back(made)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_pair(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    async with running_pair(folder, url, idempotency_max_bytes=20_000) as pair:
        yield pair


@pytest_asyncio.fixture(loop_scope="module")
async def pair(shared_pair: Pair) -> AsyncIterator[Pair]:
    """Two gateways on one database, back to their defaults for each test."""
    shared_pair.reset()
    yield shared_pair
    await shared_pair.at_rest()
