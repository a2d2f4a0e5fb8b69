"""Keeps the published directory equal to its file: at start, on change and on SIGHUP."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from weir_core.tasks import end_task
from weir_gateway.directory.file import DirectoryFileError, read_document
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.snapshot_builder import build_snapshot

_log = structlog.get_logger(__name__)

_Stamp = tuple[int, int, int]


class DirectoryFileSource:
    """Loads the file into the publisher; a bad file keeps the last good version.

    Args:
        path: the directory file.
        poll_s: how often the file is looked at for changes.
        on_refused: called for each bad file that `reload` refuses.
    """

    def __init__(
        self,
        path: Path,
        publisher: DirectoryPublisher,
        *,
        poll_s: float = 1.0,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._publisher = publisher
        self._poll_s = poll_s
        self._on_refused = on_refused
        self._stamp: _Stamp | None = None
        self._task: asyncio.Task[None] | None = None

    def load(self) -> bool:
        """Reads the file and publishes it; False when it changes nothing.

        Raises:
            DirectoryFileError: the file is bad; what is published stays.
        """
        self._stamp = self._read_stamp()
        document = read_document(self._path)
        return self._publisher.publish(build_snapshot(document, self._publisher.next_version()))

    def reload(self) -> None:
        """As `load`, but a bad file is one line in the log."""
        try:
            changed = self.load()
        except DirectoryFileError as error:
            self._on_refused()
            _log.error("directory reload refused, the last good version stays", problem=str(error))
            return
        _log.info("directory reloaded", changed=changed, version=self._publisher.version)

    def start(self) -> None:
        """Begins to look for changes of the file."""
        self._task = asyncio.create_task(self._poll(), name="directory-file")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            stamp = self._read_stamp()
            if stamp is not None and stamp != self._stamp:
                self.reload()

    def _read_stamp(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino)
