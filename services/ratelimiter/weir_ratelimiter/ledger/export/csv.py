"""Rows as CSV (RFC 4180), safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from weir_ratelimiter.ledger.export.fields import FIELDS, shown
from weir_ratelimiter.ledger.row import LedgerRow

# A spreadsheet takes a cell that begins so for a formula (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def header() -> bytes:
    """The line of names."""
    return _written([FIELDS])


def encode(rows: Sequence[LedgerRow]) -> bytes:
    """Lines; what is unknown is an empty cell.

    A text that begins like a formula, or with `'`, has one `'` before it: take one away to have
    the text. Numbers have none.
    """
    return _written([[_cell(value) for value in shown(row).values()] for row in rows])


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _written(lines: Sequence[Sequence[Any]]) -> bytes:
    output = io.StringIO()
    csv.writer(output).writerows(lines)
    return output.getvalue().encode()
