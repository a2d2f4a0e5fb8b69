"""Counts anew what tenants hold, from the rows themselves.

An earlier release that still runs beside this one adds and removes without counting.
"""

from typing import Any

from sqlalchemy import Select, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.holdings.bounds import Kind
from weir_gateway.holdings.tables import holdings
from weir_gateway.idempotency.tables import idempotency_keys
from weir_gateway.responses.tables import events, responses
from weir_gateway.state.state import State
from weir_gateway.webhooks.tables import messages

_COUNTED = (Kind.RESPONSES.value, Kind.IDEMPOTENCY.value, Kind.WEBHOOKS.value)


class Recount:
    """See the module.

    Args:
        state: the database.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    async def run(self) -> None:
        """Corrects every count, one in each transaction. Raises WeirError(STATE_UNAVAILABLE)."""
        known = select(holdings.c.tenant_id, holdings.c.kind).where(holdings.c.kind.in_(_COUNTED))
        async with self._state.reading() as connection:
            rows = (await connection.execute(known)).all()
        for tenant_id, kind in rows:
            async with self._state.writing() as connection:
                await _correct(connection, tenant_id, Kind(kind))


async def _correct(connection: AsyncConnection, tenant_id: str, kind: Kind) -> None:
    named = (holdings.c.tenant_id == tenant_id, holdings.c.kind == kind.value)
    # Who has added rows and not counted them yet does so after this, on top of it.
    await connection.execute(select(holdings.c.kind).where(*named).with_for_update())
    objects, size = (await connection.execute(_sums(kind, tenant_id))).one()
    if kind is Kind.RESPONSES:
        size += (await connection.execute(_event_sum(tenant_id))).scalar_one()
    await connection.execute(
        update(holdings).where(*named).values(objects=int(objects), bytes=int(size))
    )


def _sums(kind: Kind, tenant_id: str) -> Select[Any]:
    if kind is Kind.RESPONSES:
        size = func.length(responses.c.response) + func.length(responses.c["items"])
        of_tenant = responses.c.tenant_id == tenant_id
    elif kind is Kind.IDEMPOTENCY:
        parts = (idempotency_keys.c.head, idempotency_keys.c.body)
        size = sum((func.coalesce(func.length(part), 0) for part in parts), literal(0))
        of_tenant = idempotency_keys.c.tenant_id == tenant_id
    else:
        size, of_tenant = literal(0), messages.c.tenant_id == tenant_id
    return select(func.count(), func.coalesce(func.sum(size), 0)).where(of_tenant)


def _event_sum(tenant_id: str) -> Select[Any]:
    size = func.coalesce(func.sum(func.length(events.c.data)), 0)
    return select(size).where(events.c.tenant_id == tenant_id)
