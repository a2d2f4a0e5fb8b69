"""The ledger's database: SQLite or PostgreSQL, the same statements on both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
from alembic.util import CommandError
from sqlalchemy import URL, Table, update
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database import engine, failures
from weir_core.database.file import DatabaseFile
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_ratelimiter.ledger.schema import upgrade
from weir_ratelimiter.ledger.tables import head
from weir_ratelimiter.ledger.unusable import LedgerUnusable

_WRITE_S = 30.0
_READ_S = 60.0
_SCRUB_S = 600.0
_CLOSE_S = 1.0

FAILURES = (*failures.FAILURES, LedgerUnusable)
"""What a database that is not there, or not in order, raises."""


class Turn(msgspec.Struct, frozen=True):
    """A writer's turn: no other writes until its transaction ends.

    Attributes:
        connection: in the transaction.
        last_id: the largest id that a row was given so far.
    """

    connection: AsyncConnection
    last_id: str


class Database:
    """Connections to one ledger. The schema is brought up to date before first use.

    Methods raise one of `FAILURES` while the database is down; the next call tries again.
    """

    def __init__(self, url: URL) -> None:
        self._engine = engine.open_engine(url)
        self._migrating = asyncio.Lock()
        self._ready = False
        self._file = (
            DatabaseFile(Path(str(url.database)), "the ledger", "ledger_url")
            if self.sqlite
            else None
        )

    @property
    def sqlite(self) -> bool:
        """Whether it is a file."""
        return engine.is_sqlite(self._engine)

    async def ready(self) -> None:
        """Bring the schema up to date, once; the file of SQLite must stay in its place.

        Raises:
            StartupError: the database is of a later release, or its file cannot be made.
            DatabaseMoved: the file was deleted or moved since.
        """
        if not self._ready:
            async with self._migrating, asyncio.timeout(_WRITE_S):
                await self._prepare()
        self._check_file()

    @asynccontextmanager
    async def writing(self, limit_s: float = _WRITE_S) -> AsyncIterator[Turn]:
        """A transaction in turn, for at most `limit_s` seconds; committed at the end, rolled
        back on an exception."""
        await self.ready()
        take = update(head).values(turns=head.c.turns + 1).returning(head.c.last_id)
        async with asyncio.timeout(limit_s), self._engine.begin() as connection:
            last_id = (await connection.execute(take)).scalar_one()
            yield Turn(connection, last_id)
            self._check_file()

    @asynccontextmanager
    async def reading(self, limit_s: float = _READ_S) -> AsyncIterator[AsyncConnection]:
        """A view of one moment, for at most `limit_s` seconds; writers go on meanwhile."""
        await self.ready()
        async with asyncio.timeout(limit_s), engine.snapshot(self._engine) as connection:
            yield connection

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An INSERT that can say what to do on a conflict."""
        return engine.insert(self._engine, table)

    async def scrub(self) -> None:
        """Remove from the file what was overwritten; writers wait meanwhile, for a second or so
        per 100 MB. PostgreSQL does it by itself, some time later."""
        if self.sqlite:
            async with asyncio.timeout(_SCRUB_S), self._engine.connect() as connection:
                await connection.execution_options(**{engine.BEGIN: ""})
                await connection.exec_driver_sql("VACUUM")
                await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        """Close all connections; those that do not answer are left to the other side."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._engine.dispose()

    async def _prepare(self) -> None:
        if self._ready:
            return
        if self._file is not None:
            self._file.make()
        await self._upgrade()
        self._ready = True

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check_same()

    async def _upgrade(self) -> None:
        async with self._engine.connect() as connection:
            await connection.execution_options(**{engine.BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                try:
                    await connection.run_sync(upgrade)
                except CommandError as error:
                    raise StartupError(
                        f"the ledger's database is of another release: {error}; "
                        "start that release, or change ledger_url"
                    ) from None


@contextmanager
def told_as_unavailable() -> Iterator[None]:
    """Turn `FAILURES` into WeirError(LIMITER_UNAVAILABLE), for callers of the service."""
    try:
        yield
    except FAILURES as error:
        raise WeirError(
            Reason.LIMITER_UNAVAILABLE,
            f"the ledger cannot be read or written: {cause_of(error)}; see ledger_url",
            retry_after_s=5.0,
        ) from error


def cause_of(error: BaseException) -> str:
    """What went wrong, in one line without statements, values or passwords."""
    return str(error) if isinstance(error, LedgerUnusable) else failures.cause_of(error)
