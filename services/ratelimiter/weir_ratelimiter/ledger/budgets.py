"""What limits have used, as the ledger knows it."""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import BigInteger, func, literal_column, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.ledger.database import Database, told_as_unavailable
from weir_ratelimiter.ledger.filters import settled_since
from weir_ratelimiter.ledger.owner import owned_by, units_of
from weir_ratelimiter.ledger.pump import LedgerPump
from weir_ratelimiter.ledger.sums import Span, Sums, decoded, row_sums, usage_sums
from weir_ratelimiter.ledger.tables import GRANTS_ONLY, LIMB, rows

_READ_S = 5.0
_MINUTE_MS = 60_000
_COUNTED = (Kind.BUCKET, Kind.WINDOW)


class LedgerBudgets:
    """Answers for the account from the ledger.

    Args:
        database: of the ledger.
        pump: what is still in the outbox is written before a budget is read.
        now_ms: wall time, Unix milliseconds.
    """

    def __init__(self, database: Database, pump: LedgerPump, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._pump = pump
        self._now_ms = now_ms

    async def used(self, tenant_id: str, limit: Limit, window: Window) -> int:
        """Units charged to a limit in a window, less what was granted to it; exact.

        Negative where more was granted than used. What open reservations hold is not in it.

        Args:
            tenant_id: to whom the limit applies; of a limit of all tenants, anybody.
            limit: a budget.
            window: one of its windows.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if the ledger cannot tell.
        """
        await self._pump.flush(tenant_id if limit.numbers_are_own else "")
        span = Span(window.start_ms, window.end_ms)
        with told_as_unavailable():
            async with self._database.reading(_READ_S) as connection:
                sums = await usage_sums(connection, span, owned_by(limit))
                granted = await _granted(connection, limit.key, span)
        return units_of(limit.resource, sums.get((), Sums())) - granted

    async def used_last_minute(
        self, subject: Subject, limits: Sequence[Limit]
    ) -> Mapping[str, int]:
        """Units settled in the last 60 seconds, by key of the limit.

        For buckets and windows of the subject's own layers; others are left out: their numbers
        tell of other tenants.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if the ledger cannot tell.
        """
        since = settled_since(self._now_ms() - _MINUTE_MS, _MINUTE_MS)
        recent = (rows.c.tenant_id == subject.tenant_id, *since)
        by = ("user", "api_key", "model")
        await self._pump.flush(subject.tenant_id)
        with told_as_unavailable():
            async with self._database.reading(_READ_S) as connection:
                found = await connection.execute(row_sums(recent, by))
                groups = [decoded(row, len(by)) for row in found]
        return {
            limit.key: _units(limit, subject.tenant_id, groups)
            for limit in limits
            if limit.kind in _COUNTED and limit.numbers_are_own
        }


def _units(limit: Limit, tenant_id: str, groups: Sequence[tuple[tuple[str, ...], Sums]]) -> int:
    wanted = owned_by(limit).items()
    columns = ("user_id", "api_key_id", "model")
    return sum(
        units_of(limit.resource, sums)
        for group, sums in groups
        if wanted <= ({"tenant_id": tenant_id} | dict(zip(columns, group, strict=True))).items()
    )


async def _granted(connection: AsyncConnection, limit_id: str, span: Span) -> int:
    limb = literal_column(str(LIMB), BigInteger)
    found = await connection.execute(
        select(func.sum(rows.c.units // limb), func.sum(rows.c.units % limb)).where(
            text(GRANTS_ONLY),
            rows.c.limit_id == limit_id,
            rows.c.kind == EventKind.GRANT,
            rows.c.reserve_ms >= span.from_ms,
            rows.c.reserve_ms < span.to_ms,
        )
    )
    high, low = found.one()
    return int(high or 0) * LIMB + int(low or 0)
