"""Rows as JSON lines."""

from collections.abc import Sequence

import orjson

from weir_ratelimiter.ledger.export.fields import shown
from weir_ratelimiter.ledger.row import LedgerRow


def header() -> bytes:
    """Nothing."""
    return b""


def encode(rows: Sequence[LedgerRow]) -> bytes:
    """One object a line; what is unknown is null. All integers are within 2^53."""
    return b"".join(orjson.dumps(shown(row)) + b"\n" for row in rows)
