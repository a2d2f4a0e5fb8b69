"""Sessions that any gateway takes: rows of the state database that gateways share."""

from dataclasses import asdict
from hmac import compare_digest
from typing import Any

import orjson
from sqlalchemy import delete, or_, select, update

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.session_seal import SessionSeal
from weir_gateway.console.session_store import Session, SessionStore
from weir_gateway.console.tables import console_sessions as table
from weir_gateway.state.state import State

_log = get_logger(__name__)

_FRESH_US, _USED_US = 5_000_000, 60_000_000
_LIMIT_S = 2.0


class SharedSessions:
    """Tells the other gateways of this one's sessions, and this one of theirs.

    What one gateway ends the others refuse within some seconds. While the database is away each
    goes on with what it knows. Without a database it does nothing.

    Args:
        store: the sessions that this gateway knows.
        state: see there.
        clock: time.
        idle_s: after which a session without calls has ended.
        seal: of who signed in, by what he signed in with: a row that was made by somebody else,
            or before the secret changed, opens nothing.
    """

    def __init__(
        self, store: SessionStore, state: State, clock: Clock, *, idle_s: float, seal: SessionSeal
    ) -> None:
        self._store = store
        self._seal = seal
        self._state = state
        self._clock = clock
        self._idle_ms = round(idle_s * 1_000)

    async def opened(self, session: Session) -> None:
        """Lets the others know, and forgets sessions that are over."""
        if not self._state.on:
            return
        now_ms = self._now_ms()
        row = {
            "name": session.name,
            "identity": orjson.dumps(asdict(session.identity)).decode(),
            "seal": self._seal.of(session.name, session.identity, session.expire_ms),
            "used_ms": now_ms,
            "ends_ms": session.expire_ms,
        }
        over = or_(table.c.ends_ms < now_ms, table.c.used_ms < now_ms - self._idle_ms)
        try:
            async with self._state.writing(_LIMIT_S) as connection:
                await connection.execute(delete(table).where(over))
                await connection.execute(self._state.insert(table).values(row))
        except WeirError as error:
            _log.warning("console_session_not_shared", reason=error.reason)
            return
        session.shared = True
        session.seen_us = session.told_us = self._clock.monotonic_us()

    async def recall(self, cookie: str) -> None:
        """Before a cookie is looked up: learns what others know of it."""
        await self.tell_ended()
        if not self._state.on or not cookie:
            return
        session = self._store.known(cookie)
        if session is None:
            session = await self._adopted(cookie)
        else:
            await self.look(session)
        if session is not None and session.shared:
            await self._tell_use(session)

    async def look(self, session: Session) -> None:
        """Ends a session that was ended elsewhere; what is known is fresh for some seconds."""
        now_us = self._clock.monotonic_us()
        if not session.shared or now_us - session.seen_us < _FRESH_US:
            return
        session.seen_us = now_us
        try:
            row = await self._row(session.name)
        except WeirError:
            return
        if row is None:
            self._store.end(session)
        else:
            session.used_us = max(session.used_us, now_us - self._idle_us_of(row))

    async def _adopted(self, cookie: str) -> Session | None:
        try:
            row = await self._row(self._store.name_of(cookie))
        except WeirError:
            return None
        if row is None:
            return None
        who, idle_us = _identity(row.identity), self._idle_us_of(row)
        if not compare_digest(self._seal.of(row.name, who, row.ends_ms), row.seal):
            return None
        session = self._store.adopt(cookie, who, row.ends_ms, idle_us)
        if session is not None:
            session.seen_us = self._clock.monotonic_us()
        return session

    async def _row(self, name: str) -> Any:
        async with self._state.reading(_LIMIT_S) as connection:
            query = select(table).where(table.c.name == name)
            return (await connection.execute(query)).one_or_none()

    def _idle_us_of(self, row: Any) -> int:
        return int(max(0, self._now_ms() - row.used_ms) * 1_000)

    async def tell_ended(self) -> None:
        """Takes away the rows of what this gateway has ended."""
        if not self._state.on or not self._store.ended:
            return
        names = [*self._store.ended]
        try:
            async with self._state.writing(_LIMIT_S) as connection:
                await connection.execute(delete(table).where(table.c.name.in_(names)))
        except WeirError:
            return
        self._store.ended.difference_update(names)

    async def _tell_use(self, session: Session) -> None:
        """Puts the idle end off, for all, as the call that is under way does."""
        now_us = self._clock.monotonic_us()
        if now_us - session.told_us < _USED_US or self._store.is_over(session):
            return
        session.told_us = now_us
        used = update(table).where(table.c.name == session.name).values(used_ms=self._now_ms())
        try:
            async with self._state.writing(_LIMIT_S) as connection:
                await connection.execute(used)
        except WeirError as error:
            _log.info("console_session_use_not_told", reason=error.reason)

    def _now_ms(self) -> int:
        return self._clock.now_us() // 1_000


def _identity(text: str) -> Identity:
    fields = orjson.loads(text)
    return Identity(**(fields | {"role": Role(fields["role"]), "method": Method(fields["method"])}))
