"""Checks records of a back-up: what is restored is what a ledger could have written."""

import base64
import binascii
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Column, LargeBinary, String, Table

from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.ledger.backup import KEPT
from weir_ratelimiter.ledger.backup_file import BadBackup, Record
from weir_ratelimiter.ledger.row import YEAR_10000_MS, LedgerRow, checked, storable
from weir_ratelimiter.ledger.row_ids import id_ms
from weir_ratelimiter.ledger.tables import rows

_TOLERANCE_MS = 5 * 60_000
_TABLES: Mapping[str, Table] = {str(table.name): table for table in KEPT}
_KINDS = frozenset(EventKind)


class RecordCheck:
    """Checks records against what a ledger holds at a moment.

    Args:
        now_ms: wall time, Unix milliseconds; rows of more than 5 minutes later are refused:
            ids of new rows come after the largest.
    """

    def __init__(self, now_ms: int) -> None:
        self._latest_ms = now_ms + _TOLERANCE_MS

    def check(self, record: Record) -> None:
        """Check a record of any table.

        Raises:
            BadBackup: no ledger could have written it.
        """
        if record.table == rows.name:
            self.row(record)
        else:
            self.values(record)

    def row(self, record: Record) -> LedgerRow:
        """A record of `ledger_rows`.

        Raises:
            BadBackup: as `check`.
        """
        _known_columns(record)
        try:
            row = checked(msgspec.convert(record.columns, LedgerRow))
        except (msgspec.ValidationError, ValueError) as error:
            raise BadBackup(f"a row is malformed: {error}") from None
        self._check_id(row.id)
        if row.kind not in _KINDS:
            raise BadBackup(f"row {row.id} is of kind {row.kind}, which this release does not know")
        for name in LedgerRow.__struct_fields__:
            value = getattr(row, name)
            if isinstance(value, str) and not storable(value):
                raise BadBackup(f"row {row.id} has a {name} that is no text")
        return row

    def values(self, record: Record) -> dict[str, Any]:
        """A record of another table, as its columns hold it.

        Raises:
            BadBackup: as `check`.
        """
        table = _known_columns(record)
        try:
            return {
                column.name: _value(column, record.columns[column.name]) for column in table.columns
            }
        except (KeyError, ValueError) as error:
            raise BadBackup(f"a record of {table.name} is malformed: {error}") from None

    def _check_id(self, text: str) -> None:
        ms = _version_7_ms(text)
        if ms is None:
            raise BadBackup(f"the id of a row is {text[:40]!r}, not a UUIDv7 in lower case")
        if ms > self._latest_ms:
            ahead_s = (ms - self._latest_ms + _TOLERANCE_MS) // 1_000
            raise BadBackup(
                f"row {text} is of {ahead_s} s from now, at most {_TOLERANCE_MS // 1_000} s are "
                "allowed; is the clock of this machine right?"
            )


def _version_7_ms(text: str) -> int | None:
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return id_ms(value) if str(value) == text and value.version == 7 else None


def _known_columns(record: Record) -> Table:
    table = _TABLES.get(record.table)
    if table is None:
        raise BadBackup(f"it has a record of {record.table[:40]!r}, which is no table of a ledger")
    if unknown := record.columns.keys() - table.columns.keys():
        raise BadBackup(f"{table.name} has no column {min(unknown)[:40]!r}")
    return table


def _value(column: "Column[Any]", value: Any) -> Any:
    for kind, read in _READERS:
        if isinstance(column.type, kind):
            return read(column.name, value)
    return _time(column.name, value)


def _bytes(name: str, value: Any) -> bytes:
    try:
        return base64.b64decode(_text(name, value), validate=True)
    except binascii.Error:
        raise ValueError(f"{name} is not base64") from None


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) and storable(value):
        return value
    raise ValueError(f"{name} is no text")


def _time(name: str, value: Any) -> int:
    if type(value) is int and 0 <= value < YEAR_10000_MS:
        return value
    raise ValueError(f"{name} is not in 0 to {YEAR_10000_MS - 1}")


_READERS: tuple[tuple[type, Callable[[str, Any], Any]], ...] = (
    (LargeBinary, _bytes),
    (String, _text),
)
