"""Events whose row is there already: the same once more, or another under the same key."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import select, tuple_

from weir_ratelimiter.ledger.database import Turn
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.ledger.tables import MEASURES, UNIQUE_ROW, rows

# Not `settle_ms`: an account that lost its last second settles again, with the same numbers.
_NUMBERS = (*MEASURES, "units", "reserve_ms")


class Contradiction(msgspec.Struct, frozen=True):
    """A row that was not written, as the ledger has another of its key.

    Attributes:
        row: was not written.
        kept_id: of the row that the ledger has.
        cause: which numbers differ.
    """

    row: LedgerRow
    kept_id: str
    cause: str


async def contradictions(turn: Turn, given: Sequence[LedgerRow]) -> Sequence[Contradiction]:
    """Those of `given`, whose keys the ledger has, that have other numbers than it."""
    if not given:
        return []
    key = [rows.c[name] for name in UNIQUE_ROW]
    keys = [_values(row, UNIQUE_ROW) for row in given]
    columns = [*key, rows.c.id, *(rows.c[name] for name in _NUMBERS)]
    found = await turn.connection.execute(select(*columns).where(tuple_(*key).in_(keys)))
    split = len(UNIQUE_ROW)
    kept = {tuple(row[:split]): (row[split], tuple(row[split + 1 :])) for row in found}
    return [
        _told(row, *kept[_values(row, UNIQUE_ROW)])
        for row in given
        if kept[_values(row, UNIQUE_ROW)][1] != _values(row, _NUMBERS)
    ]


def _told(row: LedgerRow, kept_id: str, kept: tuple[int, ...]) -> Contradiction:
    differ = [
        f"{name} {there}, here {here}"
        for name, there, here in zip(_NUMBERS, kept, _values(row, _NUMBERS), strict=True)
        if there != here
    ]
    cause = f"row {kept_id} is of the same reservation and kind: {'; '.join(differ)}"
    return Contradiction(row, kept_id, cause)


def _values(row: LedgerRow, names: Sequence[str]) -> tuple[int | str, ...]:
    return tuple(getattr(row, name) for name in names)
