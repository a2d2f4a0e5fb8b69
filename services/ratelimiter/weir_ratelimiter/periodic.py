"""Work done again and again, that no failure of one round ends."""

import asyncio
from collections.abc import Awaitable, Callable

from weir_core.errors import WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)


class Periodic:
    """Calls `work` every `interval_s` seconds until stopped.

    A round that fails is logged, and the next one comes all the same.
    """

    def __init__(self, name: str, interval_s: float, work: Callable[[], Awaitable[object]]) -> None:
        self._name = name
        self._interval_s = interval_s
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first round comes after one interval."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """End, in the middle of a round if need be."""
        if self._task is not None:
            await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._work()
            except WeirError as error:
                _log.warning(f"{self._name}_failed", reason=error.reason, cause=error.message)
            except Exception:
                _log.exception(f"{self._name}_failed")
