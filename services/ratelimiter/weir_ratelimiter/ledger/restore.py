"""Brings a back-up into a ledger: an empty one, or one that has some of its rows already."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import select, tuple_, update

from weir_ratelimiter.ledger.backup import KEPT
from weir_ratelimiter.ledger.backup_file import BadBackup, Record, check_whole, read_records
from weir_ratelimiter.ledger.database import Database, Turn
from weir_ratelimiter.ledger.record_check import RecordCheck
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.ledger.schema import SCHEMA
from weir_ratelimiter.ledger.tables import MEASURES, UNIQUE_ROW, head, rows
from weir_ratelimiter.ledger.verification import differences_in
from weir_ratelimiter.ledger.writer import insert_rows

_AT_ONCE = 500
_RESTORE_S = 24 * 3_600.0
_NUMBERS = (*MEASURES, "reserve_ms", "settle_ms", "units")
_OTHER_TABLES = {table.name: table for table in KEPT if table is not rows}


class Restored(msgspec.Struct, frozen=True):
    """What a restore did.

    Attributes:
        added: rows that the ledger did not have.
        kept: rows that it had; they stay as they were.
        last_id: largest id of a row of the file.
    """

    added: int = 0
    kept: int = 0
    last_id: str = ""

    def plus(self, other: "Restored") -> "Restored":
        """Both together."""
        last_id = max(self.last_id, other.last_id)
        return Restored(self.added + other.added, self.kept + other.kept, last_id)


async def restore(database: Database, path: Path, now_ms: int) -> Restored:
    """Add what the ledger lacks of a back-up, all of it or nothing.

    A row that the ledger has stays as it is, so that an erasure of after the back-up holds.

    Args:
        database: of the ledger.
        path: of the back-up.
        now_ms: wall time, Unix milliseconds; rows of later are refused.

    Raises:
        BadBackup: the file is damaged or foreign, has a record that no ledger writes, or has
            other numbers for a row that the ledger has; nothing was changed.
        one of `FAILURES`.
    """
    header = check_whole(path)
    if header.schema > SCHEMA.version:
        raise BadBackup(f"it is of schema {header.schema}, this release knows {SCHEMA.version}")
    check = RecordCheck(now_ms)
    for record in read_records(path):
        check.check(record)
    done = Restored()
    async with database.writing(_RESTORE_S) as turn:
        for batch in _batches(read_records(path)):
            done = done.plus(await _restore_some(database, turn, batch, check))
        if done.added + done.kept != header.rows:
            raise BadBackup(f"it has {done.added + done.kept} rows and says {header.rows}")
        if done.last_id > turn.last_id:
            await turn.connection.execute(update(head).values(last_id=done.last_id))
        if wrong := await differences_in(turn.connection):
            raise BadBackup(f"with it, sums of {len(wrong)} hours would not be right: {wrong[0]}")
    return done


async def _restore_some(
    database: Database, turn: Turn, batch: Sequence[Record], check: RecordCheck
) -> Restored:
    given = [check.row(record) for record in batch if record.table == rows.name]
    written = await insert_rows(database, turn, given)
    new = {row.id for row in written}
    await _compare(turn, [row for row in given if row.id not in new])
    for name, table in _OTHER_TABLES.items():
        values = [check.values(record) for record in batch if record.table == name]
        if values:
            statement = database.insert(table).on_conflict_do_nothing()
            await turn.connection.execute(statement, values)
    last_id = max((row.id for row in given), default="")
    return Restored(len(new), len(given) - len(new), last_id)


async def _compare(turn: Turn, given: Sequence[LedgerRow]) -> None:
    """Check that rows which the ledger has are those of the file, names apart."""
    if not given:
        return
    key = [rows.c[name] for name in UNIQUE_ROW]
    by_id = rows.c.id.in_([row.id for row in given])
    by_key = tuple_(*key).in_([tuple(getattr(row, name) for name in UNIQUE_ROW) for row in given])
    numbers = [rows.c[name] for name in _NUMBERS]
    known: dict[Any, tuple[int, ...]] = {}
    for condition in (by_key, by_id):
        found = await turn.connection.execute(select(rows.c.id, *key, *numbers).where(condition))
        for row_id, *values in found:
            split = len(UNIQUE_ROW)
            known[row_id] = known[tuple(values[:split])] = tuple(values[split:])
    for row in given:
        there = known.get(row.id) or known.get(tuple(getattr(row, name) for name in UNIQUE_ROW))
        if there != tuple(getattr(row, name) for name in _NUMBERS):
            raise BadBackup(f"row {row.id} has other numbers in the ledger: it is of another one")


def _batches(records: Iterator[Record]) -> Iterator[Sequence[Record]]:
    while batch := list(islice(records, _AT_ONCE)):
        yield batch
