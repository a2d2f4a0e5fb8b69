"""uvicorn's HTTP protocol with the two bounds that it lacks: on the size and time of a head."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from weir_core.process.joined_transport import JoinedTransport

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0


class BoundedHttpProtocol(HttpToolsProtocol):
    """Refuses a head (request line and headers) that grows or takes without bound.

    The bound on size is kept to the granularity of one read: what came with the read that
    crosses it may be body already.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_open = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._joined: JoinedTransport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection that never says anything is closed like one that never ends its head."""
        self._joined = JoinedTransport(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._joined))
        self._open_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._close_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts what belongs to a head."""
        if self._head_open:
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")
                return
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """The head of the next request on the connection begins."""
        if not self._head_open:
            self._open_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has ended; a response is to begin."""
        self._close_head()
        self._joined.hold()
        super().on_headers_complete()

    def _open_head(self) -> None:
        self._head_open = True
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_late)

    def _close_head(self) -> None:
        self._head_open = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        self._close_head()
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            self.transport.close()
