"""An append-only file that survives kill -9, and with fsync a power cut."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Literal, Self

from weir_core.errors import Reason, WeirError

FsyncPolicy = Literal["always", "interval", "never"]


class Journal:
    """One open file. Every append is in the kernel when it returns.

    That survives the end of the process in any manner. What survives a power cut is decided by
    `sync`, which the owner calls: before each reply (`always`), or every so often.
    """

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        """Bytes of whole frames."""
        self._fd = fd
        self._synced = size
        self._broken: str | None = None
        self._syncing: asyncio.Future[None] | None = None

    @classmethod
    def open(cls, path: Path, size: int) -> Self:
        """Open a file for appending after its first `size` bytes; what follows is cut off.

        Raises:
            OSError: the file cannot be opened or cut.
        """
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.ftruncate(fd, size)
        return cls(path, fd, size)

    def append(self, frame: bytes) -> None:
        """Write a frame, whole or not at all.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if it could not be written.
        """
        self._check()
        try:
            written = os.write(self._fd, frame)
            while written < len(frame):
                written += os.write(self._fd, frame[written:])
        except OSError as error:
            self._cut_back(error)
            raise _unavailable(f"the journal cannot be written: {error.strerror}") from error
        self.size += len(frame)

    async def sync(self) -> None:
        """Bring all appended frames to the disk; calls made meanwhile share one fsync.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if it failed. The journal takes nothing more then: a
                failed fsync may have dropped pages that a second one would not miss.
        """
        wanted = self.size
        while self._synced < wanted:
            self._check()
            if self._syncing is None:
                self._syncing = asyncio.ensure_future(self._fsync())
            await asyncio.shield(self._syncing)

    def flush(self) -> None:
        """Bring all appended frames to the disk; blocks. Raises OSError."""
        os.fsync(self._fd)
        self._synced = self.size

    def close(self) -> None:
        """Bring everything to the disk and close the file."""
        with contextlib.suppress(OSError):
            os.fsync(self._fd)
        self._close()

    def discard(self) -> None:
        """Remove a file that nobody will need, since another has its frames on the disk.

        Whoever waits for them in `sync` has them; the file is closed after the fsync under way.
        """
        self._synced = self.size
        self.path.unlink(missing_ok=True)
        if self._syncing is None:
            self._close()
        else:
            self._syncing.add_done_callback(lambda _: self._close())

    async def _fsync(self) -> None:
        size = self.size
        try:
            await asyncio.to_thread(os.fsync, self._fd)
            self._synced = max(self._synced, size)
        except OSError as error:
            self._broken = f"fsync of the journal failed: {error.strerror}"
        finally:
            self._syncing = None

    def _close(self) -> None:
        # A number that is closed twice may be another file's by then.
        fd, self._fd = self._fd, -1
        os.close(fd)

    def _check(self) -> None:
        if self._broken is not None:
            raise _unavailable(f"{self._broken}; free the disk and restart the ratelimiter")

    def _cut_back(self, cause: OSError) -> None:
        """Take a half-written frame off again, so that the next one starts at a boundary."""
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self._broken = f"a torn frame could not be removed after: {cause.strerror}"


def _unavailable(message: str) -> WeirError:
    return WeirError(Reason.LIMITER_UNAVAILABLE, message, retry_after_s=1.0)
