"""Which rows are asked for."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import ColumnElement

from weir_ratelimiter.ledger.sums import EVER_MS, Span
from weir_ratelimiter.ledger.tables import rows


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
        times = (rows.c.settle_ms >= self.from_ms, rows.c.settle_ms < self.to_ms)
        given = (self.from_ms > 0, self.to_ms < EVER_MS)
        return [
            *(rows.c[column] == value for column, value in self.ids.items()),
            *(time for time, asked in zip(times, given, strict=True) if asked),
        ]
