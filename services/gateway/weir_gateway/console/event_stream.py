"""A response that is a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from weir_core.tasks import end_task

_STALL_S = 30.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """Writes events until they end, the browser leaves, or it reads nothing any more.

    Args:
        events: whole events; closed in any case.
    """

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves it."""
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_until_left(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_task(leaving)
            await end_task(writing)
        fault = None if writing.cancelled() else writing.exception()
        if fault is not None and not isinstance(fault, TimeoutError):
            raise fault

    async def _write(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async for event in events:
                async with asyncio.timeout(_STALL_S):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
