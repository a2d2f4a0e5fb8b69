"""The overview as it changes: made once for all who look at the same, and only while they do."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import orjson

from weir_core.errors import Reason, WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.span_context import begin_no_traces
from weir_gateway.console.session_store import Session, SessionStore

_log = get_logger(__name__)

_STEP_S = 2.0
_PING_STEPS = 5
_LONGEST_S = 20.0
_MOST_EACH, _MOST_TENANT, _MOST = 4, 8, 32
"""Of a session, of a tenant; of all tenants, and again of administrators."""

Ticks = Callable[[float], AsyncGenerator[Any, None]]


class _Viewer:
    """One stream: holds the newest state that it has not sent."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.news = asyncio.Event()
        self.next = b""

    def offer(self, event: bytes) -> None:
        """Replaces what a slow reader has not taken."""
        self.next = event
        self.news.set()


class _Feed:
    """Those who look at the same, and what they saw last."""

    def __init__(self) -> None:
        self.viewers: set[_Viewer] = set()
        self.task: asyncio.Task[None] | None = None
        self.event = b""
        self._state = b""

    def tell(self, told: dict[str, Any]) -> None:
        """Sends a state on, if anything but its time is new."""
        state = orjson.dumps({**told, "time": None})
        self.event = event_bytes("overview", orjson.dumps(told))
        if state != self._state:
            self._state = state
            for viewer in self.viewers:
                viewer.offer(self.event)


class Live:
    """Sends events to everybody who looks.

    Args:
        overview: makes the overview of a tenant, or of everybody.
        ticks: yields when something may have changed, so many seconds apart.
        sessions: whose sessions must live.
        look: ends a session that another gateway has ended.
    """

    def __init__(
        self,
        overview: Callable[[str], Awaitable[dict[str, Any]]],
        ticks: Ticks,
        sessions: SessionStore,
        look: Callable[[Session], Awaitable[None]] | None = None,
    ) -> None:
        self._overview = overview
        self._ticks = ticks
        self._sessions = sessions
        self._look = look
        self._feeds: dict[str, _Feed] = {}
        self._stopped = False

    @property
    def viewers(self) -> int:
        """Streams that are open."""
        return sum(len(feed.viewers) for feed in self._feeds.values())

    async def watch(self, session: Session) -> AsyncGenerator[bytes, None]:
        """The events of one stream, until its session ends or the console stops.

        Raises:
            WeirError: RATE_LIMIT_EXCEEDED: too many are open.
        """
        self.check_room(session)
        viewer, scope = _Viewer(session), session.identity.tenant_id
        feed = self._feeds.setdefault(scope, _Feed())
        feed.viewers.add(viewer)
        session.streams += 1
        if feed.task is None:
            feed.task = asyncio.create_task(self._follow(scope, feed), name="console-live")
        if feed.event:
            viewer.offer(feed.event)
        try:
            yield b"retry: 3000\n\n"
            async for event in self._events(viewer):
                yield event
        finally:
            session.streams -= 1
            feed.viewers.discard(viewer)
            if not feed.viewers and self._feeds.get(scope) is feed:
                del self._feeds[scope]
                feed.task.cancel()

    def check_room(self, session: Session) -> None:
        """Raises WeirError(RATE_LIMIT_EXCEEDED) when one more stream is too many."""
        scope = session.identity.tenant_id
        open_here = {name: len(feed.viewers) for name, feed in self._feeds.items()}
        own, admins = open_here.get(scope, 0), open_here.get("", 0)
        alike = sum(open_here.values()) - admins if scope else admins
        full = bool(scope) and own >= _MOST_TENANT
        if session.streams >= _MOST_EACH or full or alike >= _MOST:
            raise WeirError(
                Reason.RATE_LIMIT_EXCEEDED,
                f"{session.streams} live pages of this session are open, of at most {_MOST_EACH}, "
                f"{_MOST_TENANT} of a tenant and {_MOST} in all; close one",
                retry_after_s=10,
            )

    async def stop(self) -> None:
        """Ends every stream."""
        self._stopped = True
        feeds = list(self._feeds.values())
        for feed in feeds:
            for viewer in feed.viewers:
                viewer.news.set()
            if feed.task is not None:
                await end_task(feed.task)

    async def _events(self, viewer: _Viewer) -> AsyncIterator[bytes]:
        quiet = 0
        while not self._stopped:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STEP_S):
                    await viewer.news.wait()
            viewer.news.clear()
            try:
                if self._look is not None:
                    await self._look(viewer.session)
                self._sessions.check(viewer.session)
            except WeirError as error:
                yield event_bytes("end", orjson.dumps({"message": error.message}))
                return
            event, viewer.next = viewer.next, b""
            quiet = 0 if event else quiet + 1
            if event:
                yield event
            elif quiet % _PING_STEPS == 0:
                yield b": ping\n\n"

    async def _follow(self, scope: str, feed: _Feed) -> None:
        """Makes the states of one scope while somebody looks."""
        begin_no_traces()
        async with aclosing(self._ticks(_STEP_S)) as ticks:
            async for _ in ticks:
                try:
                    async with asyncio.timeout(_LONGEST_S):
                        feed.tell(await self._overview(scope))
                except TimeoutError:
                    continue
                except Exception as error:
                    _log.error("console_live_failed", exc_info=error)


def event_bytes(name: str, data: bytes) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


async def by_time(step_s: float) -> AsyncGenerator[None, None]:
    """Ticks of a process that samples nothing itself."""
    while True:
        yield
        await asyncio.sleep(step_s)
