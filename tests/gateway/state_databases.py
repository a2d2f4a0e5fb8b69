"""State databases of both kinds, for tests of what is kept in them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ratelimiter.postgres import Postgres
from weir_core.database.url import parse_database_url
from weir_gateway.state.database import StateDatabase


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
