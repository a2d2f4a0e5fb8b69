"""Writes behind what requests do with sessions, so that none of them waits for it."""

import asyncio
from collections.abc import Callable, Sequence

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.sessions.store import SessionStore, SessionUse

_log = get_logger(__name__)

_PAUSE_S = 0.25
_AT_ONCE = 500
_MOST_WAITING = 100_000
_PURGE_S = 60.0
_STOP_S = 2.0


class UseWriter:
    """Gathers uses for a moment and writes those of many sessions in one transaction.

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
        self._waiting: dict[tuple[str, str], SessionUse] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write."""
        self._task = asyncio.create_task(self._run(), name="session-uses")

    async def stop(self) -> None:
        """Writes what waits, within bounds, and ends."""
        if self._task is None:
            return
        await end_task(self._task)
        try:
            async with asyncio.timeout(_STOP_S):
                await self._write()
        except (TimeoutError, WeirError):
            _log.warning("session_uses_lost", sessions=len(self._waiting))

    def note(self, use: SessionUse) -> None:
        """Something was done with a session."""
        key = use.tenant_id, use.session_id
        waiting = self._waiting.get(key)
        if waiting is None:
            if len(self._waiting) < _MOST_WAITING:
                self._waiting[key] = use
        else:
            waiting.add(use)
        self._wake.set()

    def forget(self, tenant_id: str, session_id: str) -> dict[str, str]:
        """Takes back what waits of a session; the workers that it names, with addresses."""
        use = self._waiting.pop((tenant_id, session_id), None)
        return use.homes if use is not None else {}

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        purge_at = loop.time() + _PURGE_S
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._pause_s)
            self._wake.clear()
            try:
                await self._write()
                if loop.time() >= purge_at:
                    purge_at = loop.time() + _PURGE_S
                    await self._store.purge(self._clock.now_us() // 1_000)
            except WeirError as error:
                _log.warning("session_uses_wait", error=error.message)
                self._wake.set()
                await asyncio.sleep(1.0)

    async def _write(self) -> None:
        while self._waiting:
            keys = list(self._waiting)[:_AT_ONCE]
            uses = [self._waiting.pop(key) for key in keys]
            try:
                lost = await self._store.note(uses)
            except BaseException:
                for use in uses:
                    self.note(use)
                raise
            if lost:
                self._on_lost(lost)
