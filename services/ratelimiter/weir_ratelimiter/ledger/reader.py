"""Reads rows in the order in which they were written."""

from collections.abc import AsyncIterator, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_ratelimiter.ledger.database import Database
from weir_ratelimiter.ledger.filters import RowFilter
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.ledger.row_ids import NOTHING
from weir_ratelimiter.ledger.tables import rows

_AT_ONCE = 1_000


async def page(
    connection: AsyncConnection, wanted: RowFilter, after_id: str, most: int
) -> Sequence[LedgerRow]:
    """The first `most` rows after an id."""
    statement = (
        select(rows)
        .where(rows.c.id > after_id, *wanted.conditions())
        .order_by(rows.c.id)
        .limit(most)
    )
    found = await connection.execute(statement)
    return [LedgerRow(**row) for row in found.mappings()]


async def pages(database: Database, wanted: RowFilter) -> AsyncIterator[Sequence[LedgerRow]]:
    """All rows, a page at a time; each page is read on its own, so that a slow reader of many
    rows holds up nobody. Rows that are written meanwhile come at the end."""
    after = NOTHING
    while True:
        async with database.reading() as connection:
            found = await page(connection, wanted, after, _AT_ONCE)
        if found:
            yield found
            after = found[-1].id
        if len(found) < _AT_ONCE:
            return
