"""Work that is worth doing only while its client is there."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from weir_core.tasks import end_task
from weir_gateway.openai.exchange import ClientLeft, Exchange

_T = TypeVar("_T")


async def unless_left(exchange: Exchange, work: Coroutine[Any, Any, _T]) -> _T:
    """What `work` comes to; if the client leaves before, `work` is cancelled and has ended.

    Raises:
        ClientLeft: the client left; or whatever `work` raises.
    """
    working = asyncio.create_task(work)
    left = asyncio.create_task(exchange.until_left())
    try:
        await asyncio.wait({working, left}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        return working.result()
    finally:
        await end_task(working)
        await end_task(left)
