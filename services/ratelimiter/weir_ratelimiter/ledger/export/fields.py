"""A row as files show it: enums by name, times as RFC 3339."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.usage_pb2 import UsageQuality
from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.ledger.row import LedgerRow

FIELDS = tuple(
    name.replace("_ms", "_time") if name in ("reserve_ms", "settle_ms") else name
    for name in LedgerRow.__struct_fields__
)
"""Names, in the order in which files have them."""


def kind_name(row: LedgerRow) -> str:
    """`charge`, `adjust` or `grant`."""
    return EventKind(row.kind).name.lower()


def rfc3339(ms: int) -> str:
    """Unix milliseconds as UTC, to the millisecond."""
    moment = datetime.fromtimestamp(ms // 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1_000:03d}Z"


def shown(row: LedgerRow) -> dict[str, Any]:
    """The row by `FIELDS`."""
    values = msgspec.structs.asdict(row)
    values["kind"] = kind_name(row)
    values["usage_quality"] = _name(UsageQuality, "USAGE_QUALITY_", row.usage_quality)
    values["outcome"] = _name(Outcome, "OUTCOME_", row.outcome)
    values["reserve_ms"] = rfc3339(row.reserve_ms)
    values["settle_ms"] = rfc3339(row.settle_ms)
    return dict(zip(FIELDS, values.values(), strict=True))


def _name(enum: Any, prefix: str, number: int) -> str:
    if number not in enum.values():
        return str(number)
    name: str = enum.Name(number)
    return name.removeprefix(prefix).lower()
