"""Erases what identifies a tenant; numbers stay."""

from collections.abc import Callable, Sequence

from sqlalchemy import bindparam, delete, select, update

from weir_ratelimiter.ledger.database import Database, Turn
from weir_ratelimiter.ledger.erased import NAMES, erased_row
from weir_ratelimiter.ledger.pseudonyms import Pseudonyms
from weir_ratelimiter.ledger.rollup import HourSums, forget_empty_hours
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.ledger.tables import erasures, rejects, rows

_AT_ONCE = 500
_REPLACED = ("id", "tenant_id", *NAMES)
_REPLACE = (
    update(rows)
    .where(rows.c.id == bindparam("new_id"))
    .values({name: bindparam(f"new_{name}") for name in _REPLACED})
)


class Eraser:
    """Erases in one ledger, in small transactions: writers get their turns in between.

    An erasure that was interrupted is finished by the next call for the tenant.
    """

    def __init__(
        self, database: Database, pseudonyms: Pseudonyms, now_ms: Callable[[], int]
    ) -> None:
        self._database = database
        self._pseudonyms = pseudonyms
        self._now_ms = now_ms

    async def erase(self, tenant_id: str) -> int:
        """Erase a tenant's rows of before this call; returns how many there were.

        Raises:
            one of `FAILURES`.
        """
        last_id = await self._begin(tenant_id)
        erased = 0
        while batch := await self._erase_some(tenant_id, last_id):
            erased += batch
        await self._database.scrub()
        return erased

    async def knows(self, tenant_id: str) -> bool:
        """Whether there is anything of a tenant, or was before it was erased.

        Raises:
            one of `FAILURES`.
        """
        pseudonym = self._pseudonyms.tenant(tenant_id)
        async with self._database.reading() as connection:
            for theirs in (
                select(rows.c.id).where(rows.c.tenant_id == tenant_id),
                select(rejects.c.tenant_id).where(rejects.c.tenant_id == tenant_id),
                select(erasures.c.pseudonym).where(erasures.c.pseudonym == pseudonym),
            ):
                if (await connection.execute(theirs.limit(1))).first() is not None:
                    return True
        return False

    async def _begin(self, tenant_id: str) -> str:
        values = {"pseudonym": self._pseudonyms.tenant(tenant_id), "erased_ms": self._now_ms()}
        known = self._database.insert(erasures).on_conflict_do_nothing()
        async with self._database.writing() as turn:
            await turn.connection.execute(known, [values])
            await turn.connection.execute(delete(rejects).where(rejects.c.tenant_id == tenant_id))
            return turn.last_id

    async def _erase_some(self, tenant_id: str, last_id: str) -> int:
        theirs = select(rows).where(rows.c.tenant_id == tenant_id, rows.c.id <= last_id)
        async with self._database.writing() as turn:
            found = await turn.connection.execute(theirs.order_by(rows.c.id).limit(_AT_ONCE))
            before = [LedgerRow(**row) for row in found.mappings()]
            if before:
                await self._replace(turn, before)
                await forget_empty_hours(turn, tenant_id)
        return len(before)

    async def _replace(self, turn: Turn, before: Sequence[LedgerRow]) -> None:
        after = [erased_row(row, self._pseudonyms) for row in before]
        values = [{f"new_{name}": getattr(row, name) for name in _REPLACED} for row in after]
        await turn.connection.execute(_REPLACE, values)
        sums = HourSums()
        sums.add(before, -1)
        sums.add(after)
        await sums.write(self._database, turn)
