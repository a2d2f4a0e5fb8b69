"""Counts what tenants hold, in the transactions that add and remove it.

The row of a tenant and a kind is locked from `add` to the end of the transaction: of those that add
at once each sees what the others added, so that a bound is never exceeded, at every gateway. Add
last in a transaction, and after the rows that it counts: then nobody waits for long, nor for each
other.
"""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import ColumnElement, case, select
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.holdings.bounds import Held, Kind
from weir_gateway.holdings.tables import holdings
from weir_gateway.state.state import State


class HoldingCounts:
    """What tenants hold of one kind.

    Args:
        state: the database.
        kind: what is counted.
    """

    def __init__(self, state: State, kind: Kind) -> None:
        self._state = state
        self._kind = kind

    async def add(self, connection: AsyncConnection, tenant_id: str, change: Held) -> Held:
        """Changes what a tenant holds; what it holds then."""
        row = {
            "tenant_id": tenant_id,
            "kind": self._kind.value,
            "objects": max(0, change.objects),
            "bytes": max(0, change.size),
        }
        changed = (
            self._state.insert(holdings)
            .values(row)
            .on_conflict_do_update(
                index_elements=[holdings.c.tenant_id, holdings.c.kind],
                set_={
                    "objects": _at_least_0(holdings.c.objects + change.objects),
                    "bytes": _at_least_0(holdings.c.bytes + change.size),
                },
            )
            .returning(holdings.c.objects, holdings.c.bytes)
        )
        objects, size = (await connection.execute(changed)).one()
        return Held(objects, size)

    async def take_turn(self, connection: AsyncConnection, tenant_id: str) -> None:
        """Waits until the others that take turns for this tenant have ended.

        What is read after it, by a statement of its own, has all that they wrote.
        """
        await self.add(connection, tenant_id, Held())

    async def remove(self, connection: AsyncConnection, gone: Iterable[tuple[str, int]]) -> None:
        """Takes off objects that were deleted, each as its tenant and its bytes."""
        sums: dict[str, Held] = defaultdict(Held)
        for tenant_id, size in gone:
            before = sums[tenant_id]
            sums[tenant_id] = Held(before.objects - 1, before.size - size)
        # In one order everywhere: two that remove never wait for each other.
        for tenant_id in sorted(sums):
            await self.add(connection, tenant_id, sums[tenant_id])

    async def of(self, tenant_id: str) -> Held:
        """What a tenant holds now."""
        statement = select(holdings.c.objects, holdings.c.bytes).where(
            holdings.c.tenant_id == tenant_id, holdings.c.kind == self._kind.value
        )
        async with self._state.reading() as connection:
            row = (await connection.execute(statement)).one_or_none()
        return Held() if row is None else Held(*row)


def _at_least_0(value: ColumnElement[int]) -> ColumnElement[int]:
    # A gateway of an earlier release adds without counting, while a deployment is upgraded.
    return case((value > 0, value), else_=0)
