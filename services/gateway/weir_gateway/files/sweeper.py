"""Removes, now and then, files that have expired or were never finished."""

import asyncio

from weir_core.errors import WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.files.file_remover import FileRemover

_log = get_logger(__name__)

_EVERY_S = 60.0


class FileSweeper:
    """Several gateways may sweep at once."""

    def __init__(self, remover: FileRemover, *, every_s: float = _EVERY_S) -> None:
        self._remover = remover
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins."""
        self._task = asyncio.create_task(self._run(), name="file-sweeper")

    async def stop(self) -> None:
        """Ends."""
        if self._task is not None:
            await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._remover.sweep()
            except WeirError as error:
                _log.warning("files_not_swept", reason=error.reason)
