"""A deadline for the other side alone: time in which this process stood still does not count."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

_LATE = 0.25
"""Part of the limit by which a timer may be late before the loop was held up."""


async def within(limit_s: float, work: Awaitable[T]) -> T:
    """Await `work` for `limit_s` seconds.

    Where the event loop itself was held up (no processor, a long callback), the answer may lie
    unread in the socket: it gets the same time once more.

    Raises:
        TimeoutError: no answer in time; `work` was cancelled.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as deadline:
        due = loop.time() + limit_s
        timer = loop.call_at(due, _expire, deadline, due, limit_s)
        try:
            return await work
        finally:
            timer.cancel()


def _expire(deadline: asyncio.Timeout, due: float, limit_s: float) -> None:
    now = asyncio.get_running_loop().time()
    late = now - due > _LATE * limit_s
    deadline.reschedule(now + limit_s if late else now)
