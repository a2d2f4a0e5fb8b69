"""Webhooks that are to be sent: written down with what they tell, in the same transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir.directory.v1.directory_pb2 import KeepPolicy
from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.ids import new_id
from weir_core.telemetry.logs import get_logger
from weir_gateway.holdings.bounds import BoundOf, Held, Kind, webhook_bound
from weir_gateway.holdings.counts import HoldingCounts
from weir_gateway.state.state import State
from weir_gateway.webhooks.message import Message
from weir_gateway.webhooks.secret_store import SecretStore
from weir_gateway.webhooks.tables import endpoints, messages

_log = get_logger(__name__)

LARGEST = 20_000
"""Bytes of a payload."""

MOST_GONE = 1_000
"""URLs of a tenant that jobs named and that are remembered to be gone; the newest."""

# It keeps that it was, not what it said.
_ENDED: Mapping[str, Any] = {"due_ms": 0, "body": b""}
_LEASE_MS = 60_000
_REMOVED_AT_ONCE = 500
_KEPT_MS = 3 * 86_400_000
_ALL_TRIES_MS = 4 * 86_400_000


class Outbox:
    """See the module.

    Args:
        state: the database.
        secrets: sign them.
        clock: wall time.
        bound_of: how many a tenant may have in it. Ended ones make room for new ones; while all
            of them wait for their receivers no more are queued.
        dropped: told how many were not queued.
    """

    def __init__(
        self,
        state: State,
        secrets: SecretStore,
        clock: Clock,
        *,
        bound_of: BoundOf = lambda _: webhook_bound(KeepPolicy()),
        dropped: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._counts = HoldingCounts(state, Kind.WEBHOOKS)
        self._bound_of = bound_of
        self._dropped = dropped
        self._state = state
        self._secrets = secrets
        self._clock = clock

    async def enqueue(
        self,
        connection: AsyncConnection,
        tenant_id: str,
        type: str,  # noqa: A002 - as the payload calls it
        data: Mapping[str, Any],
        url: str = "",
    ) -> int:
        """Queues an event in the transaction of `connection`; sent once it is committed.

        Args:
            connection: of `State.writing`.
            tenant_id: whose event it is.
            type: such as `job.completed`.
            data: what it is about, JSON; no prompt, no answer.
            url: where to; empty: to the endpoints that the tenant has registered alone.

        Returns:
            How many were queued: none to a URL that is disabled or for which there is no room,
            each URL once.

        Raises:
            ValueError: the payload is over `LARGEST`.
        """
        of_interest = or_(endpoints.c.registered, endpoints.c.url == url)
        known = (
            await connection.execute(
                select(endpoints.c.url, endpoints.c.registered, endpoints.c.disabled_ms).where(
                    endpoints.c.tenant_id == tenant_id, of_interest
                )
            )
        ).all()
        disabled = {row.url for row in known if row.disabled_ms}
        wanted = {row.url for row in known if row.registered} | ({url} if url else set())
        urls = sorted(wanted - disabled)
        if not urls:
            return 0
        await self._secrets.ensure(connection, tenant_id)
        rows = [self._row(tenant_id, type, data, one) for one in urls]
        return await self._insert(connection, tenant_id, rows)

    async def take_due(self, most: int, busy: Collection[str]) -> Sequence[Message]:
        """Messages whose time has come, at most `most`; others leave them alone for a while.

        Args:
            most: of all tenants together.
            busy: tenants whose messages wait.
        """
        now_ms = self._clock.now_ms()
        is_due = and_(messages.c.due_ms.between(1, now_ms), messages.c.tenant_id.not_in(list(busy)))
        if not await self._any(is_due):
            return []
        due = (
            select(messages.c.id)
            .where(is_due)
            .order_by(messages.c.due_ms)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(messages)
            .values(due_ms=now_ms + _LEASE_MS, attempts=messages.c.attempts + 1)
            .returning(
                messages.c.id,
                messages.c.tenant_id,
                messages.c.url,
                messages.c.body,
                messages.c.attempts,
            )
        )
        async with self._state.writing() as connection:
            ids = list((await connection.execute(due)).scalars())
            rows = (await connection.execute(taken.where(messages.c.id.in_(ids)))).all()
            keys = {
                tenant: await self._keys_of(connection, tenant)
                for tenant in {row.tenant_id for row in rows}
            }
        return [
            Message(row.id, row.tenant_id, row.url, row.body, row.attempts, keys[row.tenant_id])
            for row in rows
        ]

    async def _keys_of(self, connection: AsyncConnection, tenant_id: str) -> tuple[str, ...]:
        """None of a tenant whose secret cannot be decrypted: that holds up nobody else's."""
        try:
            return await self._secrets.in_force(connection, tenant_id)
        except WeirError:
            return ()

    async def delivered(self, message: Message, status: int) -> None:
        """The receiver has it."""
        await self._write(
            message, {**_ENDED, "delivered_ms": self._clock.now_ms(), "last_status": status}
        )

    async def failed(self, message: Message, status: int, error: str, again_ms: int | None) -> None:
        """It was not taken; `again_ms` from now it is due again, None: it is given up."""
        after = _ENDED if again_ms is None else {"due_ms": self._clock.now_ms() + again_ms}
        await self._write(message, {**after, "last_status": status, "last_error": error})

    async def gone(self, message: Message) -> None:
        """The receiver wants no more: its URL is disabled, and what waits for it is given up."""
        now_ms = self._clock.now_ms()
        row = {
            "tenant_id": message.tenant_id,
            "url": message.url,
            "registered": False,
            "disabled_ms": now_ms,
        }
        insert = self._state.insert(endpoints).values(row)
        unregistered = and_(
            endpoints.c.tenant_id == message.tenant_id, endpoints.c.registered.is_(False)
        )
        newest = (
            select(endpoints.c.url)
            .where(unregistered)
            .order_by(endpoints.c.disabled_ms.desc(), endpoints.c.url)
            .limit(MOST_GONE)
        )
        async with self._state.writing() as connection:
            await connection.execute(
                insert.on_conflict_do_update(
                    index_elements=[endpoints.c.tenant_id, endpoints.c.url],
                    set_={"disabled_ms": now_ms},
                )
            )
            # Jobs name URLs, as many as a tenant likes: those that are gone would fill the table.
            await connection.execute(
                delete(endpoints).where(unregistered, endpoints.c.url.not_in(newest))
            )
            await connection.execute(
                update(messages)
                .where(
                    messages.c.tenant_id == message.tenant_id,
                    messages.c.url == message.url,
                    messages.c.due_ms > 0,
                )
                .values(**_ENDED, last_status=410, last_error="the receiver is gone")
            )

    async def remove_old(self) -> int:
        """Removes messages that ended some days ago; how many.

        Some at once, so that no writer waits long for it.
        """
        old = select(messages.c.id).where(messages.c.expires_ms <= self._clock.now_ms())
        removed = 0
        while True:
            async with self._state.reading() as connection:
                ids = list((await connection.execute(old.limit(_REMOVED_AT_ONCE))).scalars())
            if not ids:
                return removed
            async with self._state.writing() as connection:
                removed += await self._remove(connection, ids)

    async def _insert(
        self, connection: AsyncConnection, tenant_id: str, rows: list[dict[str, Any]]
    ) -> int:
        """Adds those for which there is room; how many."""
        # Counted with 0 bytes: their bodies go when they end, and each is at most `LARGEST`.
        held = await self._counts.add(connection, tenant_id, Held(objects=len(rows)))
        over = held.objects - self._bound_of(tenant_id).objects
        if over > 0:
            over -= await self._remove_ended(connection, tenant_id, over)
        if over > 0:
            over = min(over, len(rows))
            rows = rows[: len(rows) - over]
            await self._counts.add(connection, tenant_id, Held(objects=-over))
            self._dropped(over)
            _log.warning("webhooks_not_queued", tenant_id=tenant_id, number=over)
        if rows:
            await connection.execute(messages.insert(), rows)
        return len(rows)

    async def _remove_ended(self, connection: AsyncConnection, tenant_id: str, most: int) -> int:
        """Removes the oldest messages of a tenant that ended, at most `most`; how many."""
        ended = (
            select(messages.c.id)
            .where(messages.c.due_ms == 0, messages.c.tenant_id == tenant_id)
            .order_by(messages.c.id)
            .limit(most)
            # What another is about to remove is not waited for: it waits for this one.
            .with_for_update(skip_locked=True)
        )
        ids = list((await connection.execute(ended)).scalars())
        return await self._remove(connection, ids)

    async def _remove(self, connection: AsyncConnection, ids: Sequence[str]) -> int:
        some = delete(messages).where(messages.c.id.in_(ids)).returning(messages.c.tenant_id)
        gone = list((await connection.execute(some)).scalars())
        await self._counts.remove(connection, [(tenant_id, 0) for tenant_id in gone])
        return len(gone)

    async def _any(self, condition: ColumnElement[bool]) -> bool:
        """Whether there is such a message: a look that no writer waits for."""
        async with self._state.reading() as connection:
            found = await connection.execute(select(messages.c.id).where(condition).limit(1))
            return found.first() is not None

    async def _write(self, message: Message, values: Mapping[str, Any]) -> None:
        async with self._state.writing() as connection:
            await connection.execute(
                update(messages).where(messages.c.id == message.id).values(**values)
            )

    def _row(self, tenant_id: str, event: str, data: Mapping[str, Any], url: str) -> dict[str, Any]:
        now_ms = self._clock.now_ms()
        message_id = new_id("evt", self._clock)
        body = orjson.dumps(
            {
                "id": message_id,
                "object": "event",
                "type": event,
                "created_at": now_ms // 1_000,
                "timestamp": datetime.fromtimestamp(now_ms / 1_000, UTC).isoformat(),
                "data": data,
            }
        )
        if len(body) > LARGEST:
            raise ValueError(f"a webhook of {len(body)} bytes; it may have {LARGEST}")
        return {
            "id": message_id,
            "tenant_id": tenant_id,
            "url": url,
            "type": event,
            "created_ms": now_ms,
            "attempts": 0,
            "due_ms": now_ms,
            "delivered_ms": 0,
            "last_status": 0,
            "last_error": "",
            "expires_ms": now_ms + _ALL_TRIES_MS + _KEPT_MS,
            "body": body,
        }
