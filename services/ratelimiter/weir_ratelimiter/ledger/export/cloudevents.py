"""Rows as CloudEvents 1.0, structured JSON, one a line."""

from collections.abc import Sequence
from typing import Any

import orjson

from weir_ratelimiter.ledger.export.fields import kind_name, rfc3339, shown
from weir_ratelimiter.ledger.row import LedgerRow

SOURCE = "urn:tokenweir:ledger"
_TYPE = "com.tokenweir.ledger"


def header() -> bytes:
    """Nothing."""
    return b""


def encode(rows: Sequence[LedgerRow]) -> bytes:
    """One event a line. `id` and `source` stay the same however often a row is exported, so
    that a receiver can tell repeats."""
    return b"".join(orjson.dumps(_event(row)) + b"\n" for row in rows)


def _event(row: LedgerRow) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": row.id,
        "source": SOURCE,
        "type": f"{_TYPE}.{kind_name(row)}",
        # An attribute may be absent, but not empty.
        **({"subject": row.tenant_id} if row.tenant_id else {}),
        "time": rfc3339(row.settle_ms),
        "datacontenttype": "application/json",
        "data": shown(row),
    }
