"""The directory's database: SQLite or PostgreSQL, the same statements on both."""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy import URL, Connection, Table, event, update
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from weir_core.errors.startup import StartupError
from weir_gateway.directory.sql.schema import upgrade
from weir_gateway.directory.sql.tables import head

FAILURES = (SQLAlchemyError, OSError, TimeoutError)
"""What a database that is not there, or not in order, raises."""

_CONNECT_S = 5.0
_POOL_S = 5.0
# A wait for another writer of SQLite cannot be cut short: it ends before callers give up.
_BUSY_S = 3.0
_WRITE_S = 10.0
_READ_S = 10.0
_UPGRADE_S = 30.0
_CLOSE_S = 1.0
_BEGIN = "weir_begin"


class Database:
    """Connections to one directory. Methods raise one of `FAILURES` while it is down."""

    def __init__(self, url: URL) -> None:
        self._engine = _open_engine(url)
        self._url = url
        self._file: tuple[int, int] | None = None

    @property
    def sqlite(self) -> bool:
        """Whether it is a file."""
        return self._engine.dialect.name == "sqlite"

    async def prepare(self) -> None:
        """Brings the schema up to date.

        Raises:
            StartupError: the database is of a later release, or its file cannot be made.
        """
        if self.sqlite:
            self._file = _make_file(Path(str(self._url.database)))
        async with asyncio.timeout(_UPGRADE_S), self._engine.connect() as connection:
            await connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
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
        async with asyncio.timeout(_READ_S), self._engine.connect() as connection:
            if not self.sqlite:
                await connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            async with connection.begin():
                yield connection

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An INSERT that can say what to do on a conflict."""
        return SqliteInsert(table) if self.sqlite else PostgresInsert(table)

    async def close(self) -> None:
        """Closes all connections; those that do not answer are left to the other side."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._engine.dispose()

    def _check_file(self) -> None:
        """Whoever has a file open goes on with it when it is moved: what is written is lost."""
        if self._file is not None and _identity(Path(str(self._url.database))) != self._file:
            raise FileNotFoundError(errno.ENOENT, "another file than at the start is in its place")


def cause_of(error: BaseException) -> str:
    """What went wrong, in one line without statements, values or passwords."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    driver = getattr(error, "orig", None) or error
    name = type(driver).__name__
    if isinstance(driver, OSError) and driver.strerror:
        return f"{name}: {driver.strerror}"
    code = getattr(driver, "sqlite_errorname", None) or getattr(driver, "sqlstate", None)
    return f"{name}: {code}" if code else name


def _identity(path: Path) -> tuple[int, int]:
    there = path.stat()
    return there.st_dev, there.st_ino


def _make_file(path: Path) -> tuple[int, int]:
    """Makes the file for its owner alone, with its folder; returns which it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return _identity(path)
    except OSError as error:
        raise StartupError(
            f"the directory's database {path} cannot be written: {error.strerror}; "
            "change database_url"
        ) from None


def _open_engine(url: URL) -> AsyncEngine:
    if url.get_backend_name() == "sqlite":
        engine = create_async_engine(
            url, hide_parameters=True, pool_timeout=_POOL_S, connect_args={"timeout": _BUSY_S}
        )
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    return create_async_engine(
        url,
        hide_parameters=True,
        pool_timeout=_POOL_S,
        pool_pre_ping=True,
        connect_args={"timeout": _CONNECT_S},
    )


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would begin late and never for a SELECT: a read must be of one moment.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # A revocation that was answered is on the disk.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))
