"""The directory's database: SQLite or PostgreSQL, the same statements on both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy import URL, Table, update
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database import engine
from weir_core.database.file import DatabaseFile
from weir_core.errors.startup import StartupError
from weir_gateway.directory.sql.schema import upgrade
from weir_gateway.directory.sql.tables import head

_WRITE_S = 10.0
_READ_S = 10.0
_UPGRADE_S = 30.0
_CLOSE_S = 1.0


class Database:
    """Connections to one directory.

    Methods raise one of `weir_core.database.failures.FAILURES` while it is down.
    """

    def __init__(self, url: URL) -> None:
        self._engine = engine.open_engine(url)
        self._file = (
            DatabaseFile(Path(str(url.database)), "the directory's database", "database_url")
            if engine.is_sqlite(self._engine)
            else None
        )

    async def prepare(self) -> None:
        """Brings the schema up to date.

        Raises:
            StartupError: the database is of a later release, or its file cannot be made.
        """
        if self._file is not None:
            self._file.make()
        async with asyncio.timeout(_UPGRADE_S), self._engine.connect() as connection:
            await connection.execution_options(**{engine.BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                try:
                    await connection.run_sync(upgrade)
                except CommandError as error:
                    raise StartupError(
                        f"the directory's database is of another release: {error}; "
                        "start that release, or change database_url"
                    ) from None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[tuple[AsyncConnection, int]]:
        """A transaction in turn, with the version that it starts from.

        No other writes until it ends: committed at the end, rolled back on an exception.
        """
        take = update(head).values(turns=head.c.turns + 1).returning(head.c.version)
        async with asyncio.timeout(_WRITE_S), self._engine.begin() as connection:
            yield connection, (await connection.execute(take)).scalar_one()
            self._check_file()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A view of one moment; writers go on meanwhile."""
        self._check_file()
        async with asyncio.timeout(_READ_S), engine.snapshot(self._engine) as connection:
            yield connection

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An INSERT that can say what to do on a conflict."""
        return engine.insert(self._engine, table)

    async def close(self) -> None:
        """Closes all connections; those that do not answer are left to the other side."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._engine.dispose()

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check_same()
