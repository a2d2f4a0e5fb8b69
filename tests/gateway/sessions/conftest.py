"""Stores on both databases, and two gateways that share one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway
from tests.ratelimiter.postgres import Postgres, running_postgres
from weir_core.database.url import parse_database_url
from weir_gateway.state.database import StateDatabase


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
async def state(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StateDatabase]:
    """An empty state database of each kind."""
    server: Postgres | None = None
    url = f"sqlite:///{tmp_path}/state.sqlite"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        assert server is not None
        url = await server.new_database()
    database = StateDatabase(parse_database_url(url, "state_url", "a test"))
    yield database
    await database.close()
    if server is not None:
        server.give_back(url)


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
