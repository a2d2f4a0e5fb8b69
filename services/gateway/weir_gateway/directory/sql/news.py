"""Hears from PostgreSQL at once that another gateway has changed the directory."""

import asyncio
from collections.abc import Callable

import structlog

from weir_core.database.failures import FAILURES, cause_of
from weir_core.tasks import end_task
from weir_gateway.directory.sql.database import CHANNEL, Database

_log = structlog.get_logger(__name__)

_CONNECT_S = 5.0
_AGAIN_S = 5.0


class News:
    """LISTEN on a connection of its own. What it misses, the poll finds: it only saves time.

    Args:
        database: SQLite has no such thing: then nothing happens.
        heard: called at each change, and once a connection is there.

    Attributes:
        listening: whether there is one.
    """

    def __init__(self, database: Database, heard: Callable[[], None]) -> None:
        self.listening = False
        self._database = database
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to listen."""
        if not self._database.sqlite:
            self._task = asyncio.create_task(self._run(), name="directory-news")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                async with self._database.listening(CHANNEL, self._heard, _CONNECT_S) as lost:
                    self.listening = True
                    self._heard()
                    await lost.wait()
            except FAILURES as error:
                _log.info("directory news interrupted", problem=cause_of(error))
            finally:
                self.listening = False
            await asyncio.sleep(_AGAIN_S)
