"""A database with a schema of ours: SQLite or PostgreSQL, the same statements on both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from alembic.util import CommandError
from sqlalchemy import URL, Table
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database import engine
from weir_core.database.file import DatabaseFile
from weir_core.database.schema import Schema
from weir_core.errors.startup import StartupError

_UPGRADE_S = 30.0
_CLOSE_S = 1.0


class Database:
    """Connections to one database.

    Methods raise one of `weir_core.database.failures.FAILURES` while it is down.

    Args:
        url: checked by `parse_database_url`.
        schema: that it must have.
        what: it is, for people, such as `the ledger`.
        knob: the setting that names it.
    """

    def __init__(self, url: URL, schema: Schema, *, what: str, knob: str) -> None:
        self._engine = engine.open_engine(url)
        self._schema = schema
        self._what = what
        self._knob = knob
        self._file = DatabaseFile(Path(str(url.database)), what, knob) if self.sqlite else None
        self._preparing = asyncio.Lock()
        self._prepared = False

    @property
    def sqlite(self) -> bool:
        """Whether it is a file."""
        return engine.is_sqlite(self._engine)

    async def prepare(self) -> None:
        """Brings the schema up to date.

        Raises:
            StartupError: the database is of a later release, or its file cannot be made.
        """
        if self._file is not None:
            self._file.make()
        await self._upgrade()
        self._prepared = True

    async def ready(self) -> None:
        """Brings the schema up to date, once; the file of SQLite must stay in its place.

        Raises:
            StartupError: as `prepare`.
            DatabaseMoved: the file was deleted or moved since.
        """
        if not self._prepared:
            async with self._preparing:
                if not self._prepared:
                    await self.prepare()
        self.check_file()

    @asynccontextmanager
    async def transaction(self, limit_s: float) -> AsyncIterator[AsyncConnection]:
        """A transaction that may write, for at most `limit_s` seconds: committed at the end,
        rolled back on an exception. Of SQLite one at a time."""
        async with asyncio.timeout(limit_s), self._engine.connect() as connection:
            if self.sqlite:
                await connection.execution_options(**{engine.BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                yield connection
                self.check_file()

    @asynccontextmanager
    async def reading(self, limit_s: float) -> AsyncIterator[AsyncConnection]:
        """A view of one moment, for at most `limit_s` seconds; writers go on meanwhile."""
        self.check_file()
        async with asyncio.timeout(limit_s), engine.snapshot(self._engine) as connection:
            yield connection

    @asynccontextmanager
    async def listening(
        self, channel: str, heard: Callable[[], None], limit_s: float
    ) -> AsyncIterator[asyncio.Event]:
        """PostgreSQL alone: calls `heard` at every NOTIFY, on a connection of its own.

        Args:
            channel: its name.
            heard: must not block.
            limit_s: for the connection to be there.

        Yields an event that is set when the connection is lost.
        """
        lost = asyncio.Event()
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(limit_s):
                connection = await stack.enter_async_context(self._engine.connect())
                driver: Any = (await connection.get_raw_connection()).driver_connection
                driver.add_termination_listener(lambda _: lost.set())
                await driver.add_listener(channel, lambda *_: heard())
            # Not for the pool again: it would go on listening.
            stack.push_async_callback(connection.invalidate)
            yield lost

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An INSERT that can say what to do on a conflict."""
        return engine.insert(self._engine, table)

    def check_file(self) -> None:
        """Checks that the file of SQLite is where it was. Raises DatabaseMoved."""
        if self._file is not None:
            self._file.check_same()

    async def close(self) -> None:
        """Closes all connections; those that do not answer are left to the other side."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._engine.dispose()

    async def _upgrade(self) -> None:
        async with asyncio.timeout(_UPGRADE_S), self._engine.connect() as connection:
            await connection.execution_options(**{engine.BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                try:
                    await connection.run_sync(self._schema.upgrade)
                except CommandError as error:
                    raise StartupError(
                        f"{self._what}'s database is of another release: {error}; "
                        f"start that release, or change {self._knob}"
                    ) from None
