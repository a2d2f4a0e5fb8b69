"""The content of a file as a response."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send


class ContentResponse(StreamingResponse):
    """Streams chunks to a client that reads them.

    Args:
        chunks: the content.
        headers: of the response.
        stall_s: a client that reads nothing for so long is given up.
    """

    def __init__(
        self, chunks: AsyncIterator[bytes], headers: Mapping[str, str], *, stall_s: float
    ) -> None:
        super().__init__(chunks, media_type="application/octet-stream", headers=headers)
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves it; ends quietly when the client leaves."""

        async def bounded(message: Message) -> None:
            async with asyncio.timeout(self._stall_s):
                await send(message)

        try:
            await super().__call__(scope, receive, bounded)
        except (ClientDisconnect, TimeoutError):
            return
