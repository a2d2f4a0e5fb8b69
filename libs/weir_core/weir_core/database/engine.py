"""SQLite or PostgreSQL behind the same statements."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import URL, Connection, Table, event
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

BEGIN = "weir_begin"
"""Execution option: how a transaction of SQLite begins; empty for none."""

_CONNECT_S = 5.0
_POOL_S = 10.0
# A wait for another writer of SQLite cannot be cut short: it ends before callers give up.
_BUSY_S = 3.0
_LOOK_S = 0.01


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


def _prepare_sqlite(connection: AsyncAdapt_aiosqlite_connection, _: ConnectionPoolEntry) -> None:
    # The driver would begin late and never for a SELECT: a read must be of one moment.
    connection.isolation_level = None
    connection.run_async(_keep_log)
    cursor = connection.cursor()
    # Whoever was answered may forget what it has told: it is on the disk by then.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


async def _keep_log(driver: Any) -> None:
    """Write-ahead logging, also of a new file that another process writes to as it begins.

    SQLite does not wait then as it does for every other lock: it refuses at once.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _BUSY_S
    while True:
        try:
            await driver.execute_fetchall("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or loop.time() >= ends_at:
                raise
        await asyncio.sleep(_LOOK_S)


def _begin_sqlite(connection: Connection) -> None:
    if begin := connection.get_execution_options().get(BEGIN, "BEGIN"):
        connection.exec_driver_sql(begin)
