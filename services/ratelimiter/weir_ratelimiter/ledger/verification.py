"""Whether the sums by hour are those of the rows."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from weir_ratelimiter.ledger.database import Database
from weir_ratelimiter.ledger.sums import Group, Span, Sums, decoded, row_sums, usage_sums

_BY = ("tenant", "hour", "user", "api_key", "model")
_READ_S = 3_600.0


async def differences(database: Database) -> Sequence[str]:
    """One line for each hour, tenant, user, key and model whose sums are not those of its rows;
    none if all agree. Reads one moment of the ledger.

    Raises:
        one of `FAILURES`.
    """
    async with database.reading(_READ_S) as connection:
        return await differences_in(connection)


async def differences_in(connection: AsyncConnection) -> Sequence[str]:
    """As `differences`, within a transaction."""
    summed = await usage_sums(connection, Span(), {}, _BY)
    counted: dict[Group, Sums] = {}
    for row in await connection.execute(row_sums([], _BY)):
        group, sums = decoded(row, len(_BY))
        counted[group] = sums
    groups = sorted(summed.keys() | counted.keys())
    nothing = Sums()
    pairs = ((group, summed.get(group, nothing), counted.get(group, nothing)) for group in groups)
    return [_told(group, hour, rows) for group, hour, rows in pairs if hour != rows]


def _told(group: Group, hour: Sums, rows: Sums) -> str:
    tenant, start_ms, user, key, model = group
    start = datetime.fromtimestamp(start_ms // 1_000, UTC)
    where = f"{start:%Y-%m-%dT%H:%MZ} tenant {tenant!r} user {user!r} key {key!r} model {model!r}"
    fields = [
        f"{name} {getattr(hour, name)}, rows {getattr(rows, name)}"
        for name in Sums.__struct_fields__
        if getattr(hour, name) != getattr(rows, name)
    ]
    return f"{where}: {'; '.join(fields)}"
