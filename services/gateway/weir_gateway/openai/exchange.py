"""One HTTP request and its response over ASGI, without a framework in between."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.types import Message, Receive, Scope, Send

from weir_core.errors import Reason, WeirError
from weir_core.stall_limit import StallLimit
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.openai.refusal import Refusal

Headers = Iterable[tuple[bytes, bytes]]

_DISCARD_S = 5.0
_SMALL_BODY = 1_000_000
_DISCARDED_BODIES = 4
_JSON = (b"content-type", b"application/json")


class ClientLeft(Exception):
    """The client closed the connection, or reads nothing any more."""


class Exchange:
    """Reads one body, watches for the client leaving, and writes one response.

    Args:
        scope, receive, send: of ASGI.
        max_body: bytes; a larger body is refused, at the latest when it exceeds them.
        stall_s: for the whole body to come, and for each part of the response to go.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        max_body: int,
        stall_s: float,
    ) -> None:
        self.path: str = scope["path"]
        self._scope = scope
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self._max_body = max_body
        self._stall_s = stall_s
        self._limit = StallLimit(stall_s)
        self._complete = False
        self.started = False
        """Whether the response has begun: an error can no longer be a status."""

    def header(self, name: str) -> str | None:
        """A header by its lower-case name."""
        value = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def path_parameter(self, name: str) -> str:
        """A part of the path that its route names."""
        return str(self._scope["path_params"][name])

    @property
    def query(self) -> QueryParams:
        """What follows the path."""
        return QueryParams(self._scope["query_string"])

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            WeirError: BODY_TOO_LARGE, or DEADLINE_EXCEEDED when it comes too slowly.
            ClientLeft: the client went away.
        """
        announced = self.header("content-length") or "0"
        if announced.isascii() and announced.isdigit() and int(announced) > self._max_body:
            raise self._too_large(int(announced))
        try:
            with self._limit:
                return await self._read()
        except TimeoutError:
            raise WeirError(
                Reason.DEADLINE_EXCEEDED,
                f"the request body did not arrive within {self._stall_s:.0f} s",
            ) from None

    async def until_left(self) -> None:
        """Returns when the client closes the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def runs(self, live: LiveRequest) -> None:
        """Told by whoever serves the exchange once its request was admitted."""

    async def start(self, status: int, headers: Headers) -> None:
        """Sends status and headers."""
        self.started = True
        await self._send(
            {"type": "http.response.start", "status": status, "headers": list(headers)}
        )

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Sends a part of the body; waits while the client does not read.

        Raises:
            ClientLeft: it reads nothing for `stall_s`.
        """
        try:
            with self._limit:
                await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            raise ClientLeft from None
        finally:
            if not more:
                self._limit.close()

    async def keep_alive(self, ping: bytes) -> None:
        """Sends what is no part of the answer, into a silent stream. Raises ClientLeft."""
        await self.write(ping)

    async def reply(self, status: int, data: bytes, headers: Headers = ()) -> None:
        """Sends a whole JSON response."""
        length = (b"content-length", str(len(data)).encode())
        await self.start(status, [_JSON, length, *headers])
        await self.write(data, more=False)

    async def reply_json(self, value: Any, headers: Headers = ()) -> None:
        """Sends a JSON value with status 200."""
        await self.reply(200, orjson.dumps(value), headers)

    async def reply_refusal(self, refusal: Refusal) -> None:
        """Sends an error; what the client still sends is read first, within bounds."""
        too_large = refusal.status == 413
        await self._discard(_DISCARDED_BODIES * self._max_body if too_large else _SMALL_BODY)
        headers = list(refusal.headers)
        if not self._complete:
            headers.append((b"connection", b"close"))
        await self.reply(refusal.status, refusal.body, headers)

    def _continue(self, other: "Exchange") -> None:
        """Takes over an exchange whose body has been read; the other is not used any more."""
        vars(self).update(vars(other))

    async def _read(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            part = message.get("body", b"")
            size += len(part)
            if size > self._max_body:
                raise self._too_large(size)
            parts.append(part)
            if not message.get("more_body", False):
                self._complete = True
                return b"".join(parts)

    async def _discard(self, left: int) -> None:
        """Reads what a client is still sending, `left` bytes at most.

        A connection that is closed over unread data is reset, and the reset may overtake the
        answer. A client that waits for `100 Continue` sends nothing.
        """
        if self._complete or self.header("expect") is not None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_S):
                while left > 0 and not self._complete:
                    message: Message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientLeft
                    left -= len(message.get("body", b""))
                    self._complete = not message.get("more_body", False)

    def _too_large(self, size: int) -> WeirError:
        return WeirError(
            Reason.BODY_TOO_LARGE,
            f"the request body has {size} bytes or more; at most {self._max_body} are taken",
            field="body",
        )
