"""SQLite or PostgreSQL behind the same statements."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import URL, Connection, Table, event
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

BEGIN = "weir_begin"
"""Execution option: how a transaction of SQLite begins; empty for none."""

_CONNECT_S = 5.0
_POOL_S = 10.0
# A wait for another writer of SQLite cannot be cut short: it ends before callers give up.
_BUSY_S = 3.0


def open_engine(url: URL) -> AsyncEngine:
    """An engine; nothing connects yet.

    SQLite keeps a write-ahead log, and what was committed is on the disk.
    """
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


def is_sqlite(engine: AsyncEngine) -> bool:
    """Whether it is a file."""
    return engine.dialect.name == "sqlite"


def insert(engine: AsyncEngine, table: Table) -> SqliteInsert | PostgresInsert:
    """An INSERT that can say what to do on a conflict."""
    return SqliteInsert(table) if is_sqlite(engine) else PostgresInsert(table)


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A view of one moment; writers go on meanwhile. The caller bounds its time."""
    async with engine.connect() as connection:
        if not is_sqlite(engine):
            await connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        async with connection.begin():
            yield connection


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would begin late and never for a SELECT: a read must be of one moment.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # Whoever was answered may forget what it has told: it is on the disk by then.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if begin := connection.get_execution_options().get(BEGIN, "BEGIN"):
        connection.exec_driver_sql(begin)
