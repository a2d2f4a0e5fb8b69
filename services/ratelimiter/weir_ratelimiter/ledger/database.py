"""The ledger's database."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import msgspec
from sqlalchemy import URL, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database import database, engine, failures
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.ledger.schema import SCHEMA
from weir_ratelimiter.ledger.tables import head
from weir_ratelimiter.ledger.unusable import LedgerUnusable

_WRITE_S = 30.0
_READ_S = 60.0
_SCRUB_S = 600.0

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


class Database(database.Database):
    """Connections to one ledger. The schema is brought up to date before first use.

    Methods raise one of `FAILURES` while the database is down; the next call tries again.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url, SCHEMA, what="the ledger", knob="ledger_url")

    @asynccontextmanager
    async def writing(self, limit_s: float = _WRITE_S) -> AsyncIterator[Turn]:
        """A transaction in turn, for at most `limit_s` seconds; committed at the end, rolled
        back on an exception."""
        await self.ready()
        take = update(head).values(turns=head.c.turns + 1).returning(head.c.last_id)
        async with self.transaction(limit_s) as connection:
            last_id = (await connection.execute(take)).scalar_one()
            yield Turn(connection, last_id)

    @asynccontextmanager
    async def reading(self, limit_s: float = _READ_S) -> AsyncIterator[AsyncConnection]:
        """A view of one moment, for at most `limit_s` seconds; writers go on meanwhile."""
        await self.ready()
        async with super().reading(limit_s) as connection:
            yield connection

    async def scrub(self) -> None:
        """Remove from the file what was overwritten; writers wait meanwhile, for a second or so
        per 100 MB. PostgreSQL does it by itself, some time later."""
        if self.sqlite:
            async with asyncio.timeout(_SCRUB_S), self._engine.connect() as connection:
                await connection.execution_options(**{engine.BEGIN: ""})
                await connection.exec_driver_sql("VACUUM")
                await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


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
