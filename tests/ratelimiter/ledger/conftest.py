"""Every test of the ledger runs on SQLite and on a real PostgreSQL."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ratelimiter.ledger.support import Book, open_book
from tests.ratelimiter.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
async def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ledger.sqlite"
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    url = await server.new_database()
    yield url
    server.give_back(url)


@pytest.fixture
async def book(ledger_url: str) -> AsyncIterator[Book]:
    """An empty ledger, with an outbox in front of it."""
    async with open_book(ledger_url) as opened:
        yield opened


@pytest.fixture
async def tmp_book(tmp_path: Path) -> AsyncIterator[Book]:
    """As `book`, on SQLite alone: for what never reaches a database."""
    async with open_book(f"sqlite:///{tmp_path}/ledger.sqlite") as opened:
        yield opened
