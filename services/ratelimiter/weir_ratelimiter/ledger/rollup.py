"""Sums of rows by hour, kept in the transaction that writes the rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete

from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.ledger.database import Database, Turn
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.ledger.tables import HOUR_KEY, LIMB, MEASURES, hours

HOUR_MS = 3_600_000

HourKey = tuple[str, int, str, str, str]
"""Values of `HOUR_KEY`."""

_ADDED = [column.name for column in hours.columns if column.name not in HOUR_KEY]


def hour_of(ms: int) -> int:
    """Start of the hour (UTC) that a moment lies in; both Unix milliseconds."""
    return ms - ms % HOUR_MS


class HourSums:
    """What rows add to the sums of their hours; grants are no usage and add nothing."""

    def __init__(self) -> None:
        self._sums: dict[HourKey, dict[str, int]] = defaultdict(lambda: defaultdict(int))

    def add(self, rows: Iterable[LedgerRow], sign: int = 1) -> None:
        """Count rows in, or out with sign -1."""
        for row in rows:
            if row.kind == EventKind.GRANT:
                continue
            sums = self._sums[_key(row)]
            sums["row_count"] += sign
            sums["charges"] += sign * (row.kind == EventKind.CHARGE)
            for measure in MEASURES:
                sums[measure] += sign * getattr(row, measure)

    async def write(self, database: Database, turn: Turn) -> None:
        """Add them to the table."""
        if not self._sums:
            return
        insert = database.insert(hours)
        added = {name: hours.c[name] + insert.excluded[name] for name in _ADDED}
        statement = insert.on_conflict_do_update(index_elements=HOUR_KEY, set_=added)
        # In one order everywhere, so that no two transactions wait for each other.
        values = [_values(key, sums) for key, sums in sorted(self._sums.items())]
        await turn.connection.execute(statement, values)


async def forget_empty_hours(turn: Turn, tenant_id: str) -> None:
    """Remove the sums of a tenant that no row is left of."""
    empty = (hours.c.tenant_id == tenant_id) & (hours.c.row_count == 0)
    await turn.connection.execute(delete(hours).where(empty))


def _key(row: LedgerRow) -> HourKey:
    return (row.tenant_id, hour_of(row.reserve_ms), row.user_id, row.api_key_id, row.model)


def _values(key: HourKey, sums: Mapping[str, int]) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(HOUR_KEY, key, strict=True))
    values |= {"row_count": sums["row_count"], "charges": sums["charges"]}
    for measure in MEASURES:
        values[f"{measure}_hi"], values[f"{measure}_lo"] = divmod(sums[measure], LIMB)
    return values
