"""What is done to processes of a deployment while a patient is ill."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_STANDS_S = 0.4
_GOES_S = 0.1


@asynccontextmanager
async def halting(process: int | None) -> AsyncIterator[None]:
    """A process that stands still four fifths of the time until the body ends, if there is one."""
    if process is None:
        yield
        return
    task = asyncio.create_task(_halt(process))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _halt(process: int) -> None:
    try:
        while True:
            os.kill(process, signal.SIGSTOP)
            await asyncio.sleep(_STANDS_S)
            os.kill(process, signal.SIGCONT)
            await asyncio.sleep(_GOES_S)
    finally:
        os.kill(process, signal.SIGCONT)
