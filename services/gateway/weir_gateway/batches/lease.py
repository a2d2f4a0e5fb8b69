"""Who carries a batch on: one process at a time, by a lease that every write checks."""

import secrets
from collections.abc import Collection
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_gateway.batches.batch import Batch, BatchState
from weir_gateway.batches.rows import select_batches, to_batch
from weir_gateway.batches.tables import batches
from weir_gateway.state.state import State

LEASE_MS = 20_000
"""How long a batch stays where it was when its process dies."""

_OPEN = tuple(state.value for state in BatchState if not state.ended)


class LeaseLost(Exception):
    """Another process has the batch now, or its owner has changed it: look at it anew."""


class BatchLease:
    """The right to carry on one batch, until it is given back or runs out.

    Clocks that differ cost work that is done twice, but nothing is written twice: what the
    holder of an older lease writes is rolled back.
    """

    def __init__(self, batch_id: str, lease_id: str, clock: Clock) -> None:
        self.batch_id = batch_id
        self._lease_id = lease_id
        self._clock = clock

    async def write(
        self, connection: AsyncConnection, *, seen: BatchState | None = None, **values: Any
    ) -> None:
        """Changes the batch and prolongs the lease.

        Args:
            connection: of a transaction, which must be rolled back when this raises.
            seen: the state that the change is made from.
            values: of the row.

        Raises:
            LeaseLost: somebody else has it, or the state is another.
        """
        statement = update(batches).where(
            batches.c.id == self.batch_id, batches.c.lease_id == self._lease_id
        )
        if seen is not None:
            statement = statement.where(batches.c.state == seen.value)
        values = {"lease_ms": self._clock.now_ms() + LEASE_MS} | values
        if (await connection.execute(statement.values(values))).rowcount != 1:
            raise LeaseLost

    async def give_back(self, connection: AsyncConnection, *, in_ms: int) -> None:
        """Lets anybody look at the batch again after `in_ms`."""
        now_ms = self._clock.now_ms()
        await connection.execute(
            update(batches)
            .where(batches.c.id == self.batch_id, batches.c.lease_id == self._lease_id)
            .values(lease_id="", lease_ms=0, due_ms=now_ms + in_ms)
        )


class BatchLeases:
    """Hands out leases of batches that are due."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def take(self, *, without: Collection[str]) -> tuple[BatchLease, str] | None:
        """A lease of the batch that has waited longest, and its tenant; None: none is due.

        Args:
            without: tenants that have as many as they may already.
        """
        now_ms = self._clock.now_ms()
        due = (
            select(batches.c.id, batches.c.tenant_id, batches.c.lease_id)
            .where(
                batches.c.state.in_(_OPEN),
                batches.c.due_ms <= now_ms,
                batches.c.lease_ms < now_ms,
                batches.c.tenant_id.not_in(without),
            )
            .order_by(batches.c.due_ms)
            .limit(1)
        )
        async with self._state.reading() as connection:
            row = (await connection.execute(due)).first()
        if row is None:
            return None
        lease_id = secrets.token_hex(8)
        async with self._state.writing() as connection:
            taken = await connection.execute(
                update(batches)
                .where(batches.c.id == row.id, batches.c.lease_id == row.lease_id)
                .values(lease_id=lease_id, lease_ms=now_ms + LEASE_MS)
            )
        if taken.rowcount != 1:
            return None
        return BatchLease(row.id, lease_id, self._clock), row.tenant_id

    async def look(self, lease: BatchLease) -> Batch | None:
        """The batch of a lease as it is now; None: it is gone."""
        query = select_batches(whole=True).where(batches.c.id == lease.batch_id)
        async with self._state.reading() as connection:
            row = (await connection.execute(query)).first()
        return None if row is None else to_batch(row)
