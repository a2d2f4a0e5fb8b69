"""A connection that sends the head of an HTTP response together with what follows it."""

import asyncio
from typing import Any


class JoinedTransport:
    """Passes everything on to a transport, but holds one write back, at most for a turn.

    uvicorn writes a head before it is told the body, mostly in the same turn of the loop: alone
    it costs a system call and wakes the client for nothing.

    Args:
        transport: of the connection.
        loop: its event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._holds = False
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def hold(self) -> None:
        """The next write is the beginning of a response."""
        self._holds = True

    def write(self, data: bytes) -> None:
        """Sends it, after what was held."""
        if self._held:
            data, self._held = self._held + data, b""
        elif self._holds and data:
            self._holds = False
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Closes it when everything is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            if not self._transport.is_closing():
                self._transport.write(data)
