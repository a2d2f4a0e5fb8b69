"""Work in the background that goes on whatever happens to it."""

import asyncio
from collections.abc import Awaitable, Callable

from weir_core.errors import WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)

_AWAY_S = 1.0


class Repeating:
    """Does `work`, then waits, from `start` to `stop`; a failure ends neither.

    Args:
        name: of the work, in logs.
        work: once; after a failure of it there is a second more of waiting.
        pause: seconds between two times, or what is awaited between them.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[object]],
        pause: float | Callable[[], Awaitable[object]],
    ) -> None:
        self._name = name
        self._work = work
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, with the work."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Ends it, wherever it is."""
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._once()
            if callable(self._pause):
                await self._pause()
            else:
                await asyncio.sleep(self._pause)

    async def _once(self) -> None:
        try:
            await self._work()
        except WeirError as error:
            _log.warning("background_work_waits", work=self._name, reason=error.reason)
            await asyncio.sleep(_AWAY_S)
        except Exception as error:
            _log.error("background_work_failed", work=self._name, exc_info=error)
            await asyncio.sleep(_AWAY_S)
