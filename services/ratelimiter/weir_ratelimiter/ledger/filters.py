"""Which rows are asked for."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import ColumnElement

from weir_ratelimiter.ledger.row_ids import first_id
from weir_ratelimiter.ledger.sums import EVER_MS, Span
from weir_ratelimiter.ledger.tables import rows

_SKEW_MS = 3_600_000


class RowFilter(msgspec.Struct, frozen=True):
    """Rows with these ids; an empty id is any. Times are Unix milliseconds, the end excluded.

    Lists and files go by the time of settlement, sums by that of reservation.
    """

    tenant_id: str = ""
    api_key_id: str = ""
    model: str = ""
    request_id: str = ""
    from_ms: int = 0
    to_ms: int = EVER_MS

    @property
    def span(self) -> Span:
        """The times as a span."""
        return Span(self.from_ms, self.to_ms)

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids by column, those that are given."""
        named = {
            "tenant_id": self.tenant_id,
            "api_key_id": self.api_key_id,
            "model": self.model,
            "request_id": self.request_id,
        }
        return {column: value for column, value in named.items() if value}

    def conditions(self) -> Sequence[ColumnElement[bool]]:
        """What rows fulfil that are listed."""
        ids = [rows.c[column] == value for column, value in self.ids.items()]
        since = settled_since(self.from_ms, _SKEW_MS) if self.from_ms else ()
        until = (rows.c.settle_ms < self.to_ms,) if self.to_ms < EVER_MS else ()
        return [*ids, *since, *until]


def settled_since(ms: int, skew_ms: int) -> Sequence[ColumnElement[bool]]:
    """What rows fulfil that were settled at `ms` or later.

    A row is written after it was settled and its id is of that time, so that older rows need
    not be looked at: clocks of account and ledger may differ by `skew_ms`.
    """
    return (rows.c.id >= first_id(ms - skew_ms), rows.c.settle_ms >= ms)
