"""Ending tasks."""

import asyncio
from typing import Any

_AGAIN_S = 0.1


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and return when it has ended, however it ended.

    It is cancelled again until it ends: `asyncio.wait_for` of Python 3.11, which libraries use,
    loses a cancellation that comes in the moment in which what it waits for is done.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_S)
