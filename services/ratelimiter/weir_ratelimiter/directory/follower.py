"""Puts each new version of the directory in force, one after the other."""

import asyncio
from collections.abc import Callable

from weir_core.directory import DirectoryIndex
from weir_core.errors import WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.directory.book import LimitBook

_log = get_logger(__name__)


class DirectoryFollower:
    """Listens to a `DirectoryWatcher`; a version with a malformed limit is passed over."""

    def __init__(self, use: Callable[[LimitBook], None]) -> None:
        self._use = use
        self._newest: DirectoryIndex | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def changed(self, index: DirectoryIndex) -> None:
        """Take note of a new version; for `DirectoryWatcher.on_change`."""
        self._newest = index
        self._news.set()

    def start(self) -> None:
        """Begin to put versions in force."""
        self._task = asyncio.create_task(self._run(), name="directory-follower")

    async def stop(self) -> None:
        """End; the limits in force stay."""
        if self._task is not None:
            await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._newest is not None:
                await self._take(self._newest)

    async def _take(self, index: DirectoryIndex) -> None:
        try:
            self._use(LimitBook(index))
        except WeirError as error:
            _log.error("limits_refused", version=index.version, cause=error.message)
        except Exception:
            _log.exception("limits_failed", version=index.version)
        else:
            _log.info("limits_in_force", version=index.version)
