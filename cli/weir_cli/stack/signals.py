"""Signals at the terminal: the first asks for an orderly end, the second for an end at once."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Catches SIGINT, SIGTERM and SIGHUP inside `with`; needs a running event loop."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._caught)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def run_unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Runs the work to its end, or cancels it at the first signal; True if it ended."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            ended = task.done()
            task.cancel()
            await asyncio.wait({task})
        if ended:
            task.result()
        return ended

    async def run_unless_hurried(
        self, work: Coroutine[Any, Any, None], hurry: Callable[[], Awaitable[None]]
    ) -> None:
        """Runs the work to its end; a second signal, or one if none came before, hurries it."""
        task = asyncio.ensure_future(work)
        hurried = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({task, hurried}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await hurry()
            await task
        finally:
            hurried.cancel()

    def _caught(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
