"""Lets a burst of requests in by parts, so that the services behind work on the first already."""

import asyncio
from collections import deque

# Of 16 that come at once the ratelimiter has the first 4 while the next are being read. Of smaller
# parts the frames cost more than the overlap brings.
_AT_ONCE = 4
# Of a longer line a quarter is let on: its frames stay long where there are very many.
_SHARE = 4


class Turns:
    """Lets a few callers on at once, in order; the others follow two turns of the loop later.

    In the first of these turns those who were let on ask the ratelimiter, in the second the frame
    with their calls leaves. Whoever comes alone never waits.

    Args:
        at_once: callers; more where more than four times as many wait.
    """

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._left = at_once
        self._renewing = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Returns when it is the caller's turn."""
        self._renew()
        if self._left and not self._waiting:
            self._left -= 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _renew(self) -> None:
        if not self._renewing:
            self._renewing = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._let_on)

    def _let_on(self) -> None:
        self._renewing = False
        self._left = max(self._at_once, len(self._waiting) // _SHARE)
        if self._waiting:
            self._renew()
        while self._waiting and self._left:
            waiting = self._waiting.popleft()
            if not waiting.done():
                self._left -= 1
                waiting.set_result(None)
        self._left = min(self._left, self._at_once)
