"""Takes a back-up of a ledger, whatever is written to it meanwhile."""

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import func, select

from weir_ratelimiter.ledger.backup_file import BackupWriter, Record, to_text
from weir_ratelimiter.ledger.database import Database
from weir_ratelimiter.ledger.schema import SCHEMA
from weir_ratelimiter.ledger.tables import erasures, rejects, rows

_READ_S = 24 * 3_600.0
_AT_ONCE = 1_000

KEPT = (rows, erasures, rejects)
"""Tables that a back-up holds; sums by hour are made again from the rows."""


async def back_up(database: Database, path: Path) -> int:
    """Write one moment of the ledger to a file; returns the number of its rows.

    The file is readable by its owner alone, and appears under its name once it is whole.

    Raises:
        OSError: it cannot be written.
        one of `FAILURES`.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        count = await _write(database, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return count


async def _write(database: Database, path: Path) -> int:
    with _private(path) as file:
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
            count = await _copy(database, packed)
        file.flush()
        os.fsync(file.fileno())
    return count


def _private(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


async def _copy(database: Database, file: gzip.GzipFile) -> int:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    async with database.reading(_READ_S) as connection:
        count = await connection.scalar(select(func.count()).select_from(rows)) or 0
        writer = BackupWriter(file, SCHEMA.version, created, count)
        for table in KEPT:
            names = [str(column.name) for column in table.columns]
            ordered = select(table).order_by(*table.primary_key.columns)
            result = await connection.stream(ordered.execution_options(yield_per=_AT_ONCE))
            async for row in result:
                columns = dict(zip(names, map(to_text, row), strict=True))
                writer.add(Record(str(table.name), columns))
        writer.finish()
    return count
