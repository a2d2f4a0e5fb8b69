"""Sessions in the state database."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import (
    BigInteger,
    Row,
    String,
    case,
    delete,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.sessions.session import Session
from weir_gateway.sessions.session_use import SessionUse
from weir_gateway.sessions.tables import deletion_head, deletions, homes, sessions
from weir_gateway.state.state import State

_log = get_logger(__name__)

MOST_LIVING = 50_000
"""Sessions of one tenant; gateways that make some at the same moment may exceed it by a few."""

_READ_S = 3.0
_FULL_MS = 5_000
_PURGE_AFTER_MS = 600_000
_REMEMBER_MS = 3_600_000
_PURGED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Deletion:
    """A session that is no more."""

    tenant_id: str
    session_id: str


class SessionStore:
    """Every look-up is by tenant and id together.

    Methods raise WeirError(STATE_OFF or STATE_UNAVAILABLE) without a database, or while it is
    down.

    Args:
        state: the database.
        most: sessions of one tenant that live at once.
    """

    def __init__(self, state: State, *, most: int = MOST_LIVING) -> None:
        self._state = state
        self._most = most
        # Tenants that had no room lately, and until when they are not counted again.
        self._full_until_ms: dict[str, int] = {}

    async def add(self, session: Session) -> None:
        """Keeps a new session of an id that nobody has. Raises WeirError(STORAGE_EXCEEDED)."""
        async with self._state.writing() as connection:
            await self._check_room(connection, session)
            await connection.execute(sessions.insert().values(**_row(session)))

    async def ensure(self, session: Session) -> Session:
        """The living session of that id; it is made, or made anew, if there is none.

        Raises:
            WeirError: STORAGE_EXCEEDED: there is none, and no room for one.
        """
        async with self._state.writing() as connection:
            found = await _find(connection, session.tenant_id, session.id)
            if found is None or not found.lives(session.created_ms):
                await self._check_room(connection, session)
                await self._ensure(connection, session)
                found = await _find(connection, session.tenant_id, session.id)
        assert found is not None
        return found

    async def ensure_all(self, made: Iterable[Session]) -> None:
        """Likewise, of many in one transaction; those for which there is no room are left out."""
        living: Counter[str] = Counter()
        left_out: set[str] = set()
        async with self._state.writing() as connection:
            for session in sorted(made, key=lambda one: one.id):
                tenant = session.tenant_id
                if tenant not in living:
                    living[tenant] = await self._living(connection, session)
                if living[tenant] < self._most:
                    await self._ensure(connection, session)
                    living[tenant] += 1
                else:
                    left_out.add(tenant)
        for tenant in left_out:
            _log.warning("conversations_not_kept", tenant_id=tenant, most=self._most)

    async def find(self, tenant_id: str, session_id: str) -> Session | None:
        """The session, ended or not; None where the tenant has none of that id."""
        async with self._state.reading(_READ_S) as connection:
            return await _find(connection, tenant_id, session_id)

    async def page(
        self, tenant_id: str, now_ms: int, most: int, before: tuple[int, str] | None
    ) -> list[Session]:
        """Living sessions of a tenant, the newest first.

        Args:
            tenant_id: whose.
            now_ms: those that have ended by then are left out.
            most: of them.
            before: time of creation and id of the last one of the page before.
        """
        order = tuple_(sessions.c.created_ms, sessions.c.id)
        query = (
            select(sessions)
            .where(sessions.c.tenant_id == tenant_id, sessions.c.expires_ms > now_ms)
            .order_by(sessions.c.created_ms.desc(), sessions.c.id.desc())
            .limit(most)
        )
        if before is not None:
            created_ms, last_id = before
            last = tuple_(literal(created_ms, BigInteger), literal(last_id, String))
            query = query.where(order < last)
        async with self._state.reading() as connection:
            return [_session(row) for row in await connection.execute(query)]

    async def delete(self, tenant_id: str, session_id: str, now_ms: int) -> dict[str, str] | None:
        """Ends a session for every gateway; the workers that may hold its KV, with addresses.

        None where the tenant has no session of that id.
        """
        self._full_until_ms.pop(tenant_id, None)
        async with self._state.writing() as connection:
            gone = await connection.execute(
                delete(sessions).where(
                    sessions.c.tenant_id == tenant_id,
                    sessions.c.id == session_id,
                    sessions.c.expires_ms > now_ms,
                )
            )
            if not gone.rowcount:
                return None
            number = await connection.scalar(
                update(deletion_head)
                .values(number=deletion_head.c.number + 1)
                .returning(deletion_head.c.number)
            )
            holders = await connection.execute(
                delete(homes)
                .where(homes.c.session_id == session_id)
                .returning(homes.c.worker_id, homes.c.address)
            )
            found = {row.worker_id: row.address for row in holders}
            await connection.execute(
                deletions.insert().values(
                    number=number, session_id=session_id, tenant_id=tenant_id, time_ms=now_ms
                )
            )
        return found

    async def deleted_since(self, number: int | None) -> tuple[int, Sequence[Deletion]]:
        """The number of the last deletion, and what was deleted after `number`."""
        async with self._state.reading(_READ_S) as connection:
            last = await connection.scalar(select(deletion_head.c.number))
            assert last is not None
            if number is None or last == number:
                return last, ()
            rows = await connection.execute(
                select(deletions.c.tenant_id, deletions.c.session_id).where(
                    deletions.c.number > number
                )
            )
            return last, [Deletion(row.tenant_id, row.session_id) for row in rows]

    async def note(self, uses: Iterable[SessionUse]) -> Sequence[SessionUse]:
        """Writes what requests have done; those of which the session is no more come back."""
        lost = []
        async with self._state.writing() as connection:
            # In one order on every gateway, so that none waits for another in a circle.
            for use in sorted(uses, key=lambda one: one.session_id):
                if await self._note(connection, use):
                    await self._add_homes(connection, use)
                else:
                    lost.append(use)
        return lost

    async def purge(self, now_ms: int) -> bool:
        """Forgets some sessions that ended some time ago, and old deletions; whether there may be
        more of them."""
        ended = (
            select(sessions.c.id)
            .where(sessions.c.expires_ms <= now_ms - _PURGE_AFTER_MS)
            .limit(_PURGED_AT_ONCE)
        )
        async with self._state.writing() as connection:
            ids = [row.id for row in await connection.execute(ended)]
            # Some other gateway may have renewed one meanwhile.
            gone = await connection.execute(
                delete(sessions)
                .where(sessions.c.id.in_(ids), sessions.c.expires_ms <= now_ms - _PURGE_AFTER_MS)
                .returning(sessions.c.id)
            )
            await connection.execute(
                delete(homes).where(homes.c.session_id.in_([row.id for row in gone]))
            )
            await connection.execute(
                delete(deletions).where(deletions.c.time_ms < now_ms - _REMEMBER_MS)
            )
        return len(ids) == _PURGED_AT_ONCE

    async def _check_room(self, connection: AsyncConnection, session: Session) -> None:
        living = await self._living(connection, session)
        if living >= self._most:
            raise WeirError(
                Reason.STORAGE_EXCEEDED,
                f"the account has {living} sessions of at most {self._most}; delete some, or "
                "wait until some that are not used end",
                metadata={"limit": str(self._most), "used": str(living), "requested": "1"},
            )

    async def _living(self, connection: AsyncConnection, session: Session) -> int:
        """Sessions of its tenant that live when it is made, counted up to `most`."""
        tenant, now_ms = session.tenant_id, session.created_ms
        if now_ms < self._full_until_ms.get(tenant, 0):
            return self._most
        living = (
            select(sessions.c.id)
            .where(sessions.c.tenant_id == tenant, sessions.c.expires_ms > now_ms)
            .limit(self._most)
        )
        count = await connection.scalar(select(func.count()).select_from(living.subquery())) or 0
        if count < self._most:
            self._full_until_ms.pop(tenant, None)
        else:
            self._full_until_ms[tenant] = now_ms + _FULL_MS
        return count

    async def _ensure(self, connection: AsyncConnection, session: Session) -> None:
        statement = self._state.insert(sessions).values(**_row(session))
        ended = sessions.c.expires_ms <= session.created_ms
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=[sessions.c.id], set_=_row(session), where=ended
            )
        )

    async def _note(self, connection: AsyncConnection, use: SessionUse) -> bool:
        used_ms = literal(use.last_use_ms, BigInteger)
        last_use = case((sessions.c.last_use_ms < used_ms, used_ms), else_=sessions.c.last_use_ms)
        values = {
            sessions.c.last_use_ms: last_use,
            sessions.c.expires_ms: last_use + sessions.c.idle_ttl_ms,
        }
        if use.tokens is not None:
            values[sessions.c.tokens] = use.tokens  # type: ignore[assignment]
        done = await connection.execute(
            update(sessions)
            .where(sessions.c.tenant_id == use.tenant_id, sessions.c.id == use.session_id)
            .values(values)
        )
        return bool(done.rowcount)

    async def _add_homes(self, connection: AsyncConnection, use: SessionUse) -> None:
        for worker_id, address in use.homes.items():
            row = {"session_id": use.session_id, "worker_id": worker_id, "address": address}
            statement = self._state.insert(homes).values(**row)
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=[homes.c.session_id, homes.c.worker_id],
                    set_={"address": address},
                )
            )


async def _find(connection: AsyncConnection, tenant_id: str, session_id: str) -> Session | None:
    query = select(sessions).where(sessions.c.tenant_id == tenant_id, sessions.c.id == session_id)
    row = (await connection.execute(query)).first()
    return None if row is None else _session(row)


def _row(session: Session) -> dict[str, object]:
    return asdict(session) | {"expires_ms": session.expires_ms}


def _session(row: Row[tuple[object, ...]]) -> Session:
    values = dict(row._mapping)
    del values["expires_ms"]
    return Session(**values)
