"""Kept responses, by tenant: another tenant's is not found."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir.directory.v1.directory_pb2 import KeepPolicy
from weir_core.errors import Reason, WeirError
from weir_gateway.holdings.bounds import BoundOf, Held, Kind, response_bound
from weir_gateway.holdings.counts import HoldingCounts
from weir_gateway.responses.items import Item
from weir_gateway.responses.tables import events, responses
from weir_gateway.state.state import State

_SWEPT_AT_ONCE = 500
_ID = re.compile(r"resp_[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response; times are Unix milliseconds.

    Attributes:
        chain_id: the first response of its conversation.
        response: the object, as it ended; of a background response as it began until then.
        items: that it was made from.
    """

    tenant_id: str
    id: str
    created_ms: int
    expires_ms: int
    chain_id: str
    background: bool
    response: Mapping[str, Any]
    items: Sequence[Item]


class ResponseStore:
    """Adds, reads and removes. Methods raise WeirError(STATE_UNAVAILABLE or STATE_OFF) too.

    What is added and removed is counted by `count`, once a transaction, at its end.

    Args:
        state: the database.
        bound_of: how much a tenant may keep.
    """

    def __init__(
        self, state: State, bound_of: BoundOf = lambda _: response_bound(KeepPolicy())
    ) -> None:
        self._state = state
        self._bound_of = bound_of
        self._counts = HoldingCounts(state, Kind.RESPONSES)

    async def add(self, stored: StoredResponse) -> None:
        """Keeps a response that has ended. Raises WeirError(STORAGE_EXCEEDED)."""
        async with self._state.writing() as connection:
            size = await self.add_in(connection, stored)
            await self.count(connection, stored.tenant_id, Held(1, size), bounded=True)

    async def add_in(self, connection: AsyncConnection, stored: StoredResponse) -> int:
        """Keeps a response in the transaction of `connection`; its bytes, not counted yet."""
        response, items = orjson.dumps(stored.response), orjson.dumps(stored.items)
        row = {
            "tenant_id": stored.tenant_id,
            "id": stored.id,
            "created_ms": stored.created_ms,
            "expires_ms": stored.expires_ms,
            "chain_id": stored.chain_id,
            "background": stored.background,
            "response": response,
            "items": items,
        }
        await connection.execute(responses.insert().values(row))
        return len(response) + len(items)

    async def count(
        self, connection: AsyncConnection, tenant_id: str, change: Held, *, bounded: bool
    ) -> None:
        """Counts what the transaction of `connection` has changed.

        Raises:
            WeirError: STORAGE_EXCEEDED: `bounded`, and the tenant would keep more than it may.
        """
        held = await self._counts.add(connection, tenant_id, change)
        if bounded:
            self._bound_of(tenant_id).check(held, change)

    async def check_room(self, tenant_id: str) -> None:
        """Whether any more may be kept now. Raises WeirError(STORAGE_EXCEEDED)."""
        self._bound_of(tenant_id).check_room(await self._counts.of(tenant_id))

    async def get(self, tenant_id: str, response_id: str, field: str) -> StoredResponse:
        """One of a tenant's. Raises WeirError(RESPONSE_NOT_FOUND) on `field`."""
        if not _ID.fullmatch(response_id):
            raise not_found(field)
        async with self._state.reading() as connection:
            found = await self.find(connection, tenant_id, response_id)
        if found is None:
            raise not_found(field)
        return found

    async def find(
        self, connection: AsyncConnection, tenant_id: str, response_id: str
    ) -> StoredResponse | None:
        """One of a tenant's, if there is one."""
        statement = select(responses).where(_named(tenant_id, response_id))
        row = (await connection.execute(statement)).first()
        if row is None:
            return None
        values = dict(row._mapping)
        parts = {name: orjson.loads(values[name]) for name in ("response", "items")}
        return StoredResponse(**(values | parts))

    async def hold(self, connection: AsyncConnection, tenant_id: str, response_id: str) -> bool:
        """Whether there is one; if so, it is not removed before the transaction has ended."""
        statement = select(responses.c.id).where(_named(tenant_id, response_id))
        locked = statement.with_for_update(read=True)
        return (await connection.execute(locked)).first() is not None

    async def change_in(
        self,
        connection: AsyncConnection,
        tenant_id: str,
        response_id: str,
        response: Mapping[str, Any],
        *,
        expires_ms: int,
    ) -> int | None:
        """Writes a response anew, to be kept until `expires_ms`.

        Returns:
            Bytes that it has grown by, not counted yet; None: there is none any more.
        """
        named, written = _named(tenant_id, response_id), orjson.dumps(response)
        size = select(func.length(responses.c.response)).where(named).with_for_update()
        before = (await connection.execute(size)).scalar()
        if before is None:
            return None
        values = {"response": written, "expires_ms": expires_ms}
        await connection.execute(update(responses).where(named).values(values))
        return len(written) - int(before)

    async def delete(self, tenant_id: str, response_id: str) -> None:
        """Removes one and its events. Raises WeirError(RESPONSE_NOT_FOUND)."""
        async with self._state.writing() as connection:
            size = await self._remove(connection, tenant_id, response_id)
            if size is None:
                raise not_found("response_id")
            await self._counts.remove(connection, [(tenant_id, size)])

    async def remove_expired(self, now_ms: int) -> int:
        """Removes some that were kept long enough, with their events; how many."""
        old = (
            select(responses.c.tenant_id, responses.c.id)
            .where(responses.c.expires_ms <= now_ms)
            .limit(_SWEPT_AT_ONCE)
        )
        async with self._state.reading() as connection:
            found = (await connection.execute(old)).all()
        if found:
            async with self._state.writing() as connection:
                gone = []
                for tenant_id, response_id in sorted(found):
                    size = await self._remove(connection, tenant_id, response_id)
                    if size is not None:
                        gone.append((tenant_id, size))
                await self._counts.remove(connection, gone)
        return len(found)

    async def _remove(
        self, connection: AsyncConnection, tenant_id: str, response_id: str
    ) -> int | None:
        """Removes one and its events; their bytes, None: there was none."""
        statement = (
            delete(responses)
            .where(_named(tenant_id, response_id))
            .returning(func.length(responses.c.response) + func.length(responses.c["items"]))
        )
        size = (await connection.execute(statement)).scalar()
        if size is None:
            return None
        owned = _events_of(tenant_id, response_id)
        sizes = select(func.coalesce(func.sum(func.length(events.c.data)), 0)).where(owned)
        of_events = (await connection.execute(sizes)).scalar_one()
        await connection.execute(delete(events).where(owned))
        return int(size) + int(of_events)

    async def add_events(
        self,
        connection: AsyncConnection,
        tenant_id: str,
        response_id: str,
        added: Sequence[Mapping[str, Any]],
    ) -> int:
        """Keeps events by their `sequence_number`, in the transaction of `connection`.

        Returns:
            Their bytes, not counted yet.
        """
        rows = [
            {
                "tenant_id": tenant_id,
                "response_id": response_id,
                "sequence": event["sequence_number"],
                "data": orjson.dumps(event),
            }
            for event in added
        ]
        if rows:
            await connection.execute(events.insert(), rows)
        return sum(len(row["data"]) for row in rows)

    async def events(
        self, tenant_id: str, response_id: str, *, after: int, limit: int
    ) -> list[dict[str, Any]]:
        """Events with a greater number than `after`, in order."""
        statement = (
            select(events.c.data)
            .where(_events_of(tenant_id, response_id), events.c.sequence > after)
            .order_by(events.c.sequence)
            .limit(limit)
        )
        async with self._state.reading() as connection:
            return [orjson.loads(data) for data in (await connection.execute(statement)).scalars()]

    async def next_sequence(
        self, connection: AsyncConnection, tenant_id: str, response_id: str
    ) -> int:
        """The number of the next event."""
        statement = select(func.max(events.c.sequence)).where(_events_of(tenant_id, response_id))
        last = (await connection.execute(statement)).scalar()
        return 0 if last is None else int(last) + 1


def not_found(field: str) -> WeirError:
    """There is none of that id, or it is not this tenant's."""
    return WeirError(
        Reason.RESPONSE_NOT_FOUND,
        "there is no such response of this tenant: it was not kept (store), was deleted, or its "
        "time is over; send the whole conversation as input",
        field=field,
    )


def _named(tenant_id: str, response_id: str) -> ColumnElement[bool]:
    return and_(responses.c.tenant_id == tenant_id, responses.c.id == response_id)


def _events_of(tenant_id: str, response_id: str) -> ColumnElement[bool]:
    return and_(events.c.tenant_id == tenant_id, events.c.response_id == response_id)
