"""Writes behind what requests do with sessions, so that none of them waits long for it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.repeating import Repeating
from weir_core.telemetry.logs import get_logger
from weir_gateway.sessions.session import Session
from weir_gateway.sessions.session_use import SessionUse
from weir_gateway.sessions.store import SessionStore

_log = get_logger(__name__)

_PAUSE_S = 0.25
_MAKE_S = 0.5
_AT_ONCE = 500
_MOST_WAITING = 100_000
_PURGE_S = 60.0
_STOP_S = 2.0

_Key = tuple[str, str]


class UseWriter:
    """Gathers uses for a moment and writes those of many sessions in one transaction, and so the
    sessions of labels that are new.

    What was not written when the process dies is lost: a session then ends a quarter of a second
    early, or tells the tokens of the turn before.

    Args:
        store: where to.
        clock: wall time.
        on_lost: told of uses of sessions that are no more.
        pause_s: how long uses are gathered.
    """

    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        on_lost: Callable[[Sequence[SessionUse]], None],
        *,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_lost = on_lost
        self._pause_s = pause_s
        self._new: dict[_Key, tuple[Session, asyncio.Future[None]]] = {}
        self._waiting: dict[_Key, SessionUse] = {}
        self._wake = asyncio.Event()
        self._loops = (
            Repeating("session_uses", self._write_news, 0),
            Repeating("session_purge", self._purge, _PURGE_S),
        )

    def start(self) -> None:
        """Begins to write."""
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """Writes what waits, within bounds, and ends."""
        for loop in self._loops:
            await loop.stop()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._write()
        except (TimeoutError, WeirError):
            _log.warning("session_uses_lost", sessions=len(self._waiting))

    async def make(self, session: Session) -> None:
        """Keeps the session of a label, with others that are new at this moment; returns when it
        is kept, or after half a second: then it is kept later."""
        key = session.tenant_id, session.id
        if key not in self._new:
            if len(self._new) >= _MOST_WAITING:
                return
            self._new[key] = session, asyncio.get_running_loop().create_future()
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAKE_S):
                await asyncio.shield(self._new[key][1])

    def note(self, use: SessionUse) -> None:
        """Something was done with a session."""
        key = use.tenant_id, use.session_id
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.add(use)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting[key] = use
        self._wake.set()

    def forget(self, tenant_id: str, session_id: str) -> dict[str, str]:
        """Takes back what waits of a session; the workers that it names, with addresses."""
        use = self._waiting.pop((tenant_id, session_id), None)
        return use.homes if use is not None else {}

    async def _write_news(self) -> None:
        await self._wake.wait()
        if not self._new:
            await asyncio.sleep(self._pause_s)
        self._wake.clear()
        try:
            await self._write()
        except BaseException:
            self._wake.set()
            raise

    async def _purge(self) -> None:
        while await self._store.purge(self._clock.now_ms()):
            pass

    async def _write(self) -> None:
        while self._new:
            await self._make_some()
        while self._waiting:
            await self._note_some()

    async def _make_some(self) -> None:
        some = dict(list(self._new.items())[:_AT_ONCE])
        await self._store.ensure_all(session for session, _ in some.values())
        for key, (_, kept) in some.items():
            del self._new[key]
            if not kept.done():
                kept.set_result(None)

    async def _note_some(self) -> None:
        uses = [self._waiting.pop(key) for key in list(self._waiting)[:_AT_ONCE]]
        try:
            lost = await self._store.note(uses)
        except BaseException:
            for use in uses:
                self.note(use)
            raise
        if lost:
            self._on_lost(lost)
