"""Work that must be finished although its request is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from weir_core.rpc.deadline import own_budget

T = TypeVar("T")


async def finish(work: Coroutine[object, object, T], timeout_s: float) -> T:
    """Runs `work` to its end even if the caller is cancelled, for at most `timeout_s`.

    For `finally` blocks: settle, refund, release. The work has a deadline budget of its own.
    A cancellation that comes meanwhile is delivered once the work has ended.
    Raises TimeoutError when the work takes longer (it is cancelled then), and what it raises.
    """
    with own_budget(timeout_s):
        task = asyncio.ensure_future(_bounded(work, timeout_s))
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen, so that it is not reported as never retrieved
        raise asyncio.CancelledError
    return task.result()


async def _bounded(work: Coroutine[object, object, T], timeout_s: float) -> T:
    async with asyncio.timeout(timeout_s):
        return await work
