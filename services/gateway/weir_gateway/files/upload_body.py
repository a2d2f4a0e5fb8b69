"""The body of an upload, piece by piece."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from weir_core.errors import Reason, WeirError

_DISCARD_S = 5.0


class UploadBody:
    """Reads a body of any length with a bound on the time between its pieces.

    Args:
        receive: of ASGI.
        stall_s: longest time without a piece.
    """

    def __init__(self, receive: Receive, *, stall_s: float) -> None:
        self._receive = receive
        self._stall_s = stall_s
        self.complete = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """What comes, as it comes.

        Raises:
            WeirError: DEADLINE_EXCEEDED: nothing came for `stall_s`.
            ClientDisconnect: the client went away.
        """
        while not self.complete:
            try:
                async with asyncio.timeout(self._stall_s):
                    piece = await self._piece()
            except TimeoutError:
                raise WeirError(
                    Reason.DEADLINE_EXCEEDED,
                    f"nothing of the upload came for {self._stall_s:.0f} s; send it again",
                ) from None
            if piece:
                yield piece

    async def discard(self, most: int) -> None:
        """Reads what a refused client is still sending, so that it hears the answer.

        A connection that is closed over unread data is reset, and the reset may overtake it.
        """
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(_DISCARD_S):
                while most > 0 and not self.complete:
                    most -= len(await self._piece())

    async def _piece(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self.complete = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body
