"""The directory's database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import URL, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database import database
from weir_gateway.directory.sql.schema import SCHEMA
from weir_gateway.directory.sql.tables import head

CHANNEL = "weir_directory"
"""Of NOTIFY."""

WRITE_S = 10.0
FILL_S = 120.0
"""For the first filling, of thousands of tenants."""
_READ_S = 10.0


class Database(database.Database):
    """Connections to one directory.

    Methods raise one of `weir_core.database.failures.FAILURES` while it is down.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url, SCHEMA, what="the directory", knob="database_url")

    @asynccontextmanager
    async def writing(self, limit_s: float = WRITE_S) -> AsyncIterator[tuple[AsyncConnection, int]]:
        """A transaction in turn, with the version that it starts from.

        No other writes until it ends: committed at the end, rolled back on an exception.
        """
        take = update(head).values(turns=head.c.turns + 1).returning(head.c.version)
        async with self.transaction(limit_s) as connection:
            yield connection, (await connection.execute(take)).scalar_one()

    async def announce(self, connection: AsyncConnection) -> None:
        """Tells the other gateways of a change when it is committed, where the database can."""
        if not self.sqlite:
            await connection.execute(select(func.pg_notify(CHANNEL, "")))

    @asynccontextmanager
    async def reading(self, limit_s: float = _READ_S) -> AsyncIterator[AsyncConnection]:
        """A view of one moment; writers go on meanwhile."""
        async with super().reading(limit_s) as connection:
            yield connection
