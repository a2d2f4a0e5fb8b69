"""The folder of a journal: which file counts, reading it, starting the next one."""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path

from weir_core.errors.startup import StartupError
from weir_ratelimiter.store import frames
from weir_ratelimiter.store.frames import Frame
from weir_ratelimiter.store.journal import Journal

_NAME = re.compile(r"journal-(\d{9})\.wj")


class JournalFolder:
    """Numbered files, of which the highest finished one is the account.

    Raises:
        StartupError: the folder cannot be used, or another process uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartupError(
                f"the ratelimiter cannot use {path}: {error.strerror}; set --journal to a "
                "folder that it may write"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StartupError(
                f"another ratelimiter uses {path}; set --journal to a folder of its own"
            ) from error

    def latest(self) -> Path | None:
        """The file to replay; None if there is none."""
        return max(self._files(), default=None, key=_number)

    def read(self, path: Path) -> list[Frame]:
        """Frames of a file, without a torn tail.

        Raises:
            StartupError: it is damaged, or of another release.
        """
        try:
            return [frame for _, frame in frames.decode(path.read_bytes(), str(path))]
        except (frames.JournalCorrupt, OSError) as error:
            raise StartupError(str(error)) from error

    def next_path(self) -> Path:
        """Name of the file after the latest."""
        latest = self.latest()
        number = 1 if latest is None else _number(latest) + 1
        return self.path / f"journal-{number:09d}.wj"

    def begin(self, path: Path) -> Journal:
        """Open a draft of `path`, to be filled with a snapshot and then published."""
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        journal = Journal.open(draft, 0)
        journal.append(frames.HEADER)
        return journal

    def publish(self, journal: Journal) -> None:
        """Make a draft the file that counts, durably, and drop all others.

        Raises:
            OSError: the draft does not count.
        """
        path = journal.path.with_suffix(".wj")
        journal.flush()
        os.rename(journal.path, path)
        journal.path = path
        # From here on it counts. An older file that stays behind does no harm.
        with contextlib.suppress(OSError):
            self._sync_folder()
            for other in self._files():
                if other != path:
                    other.unlink()

    def close(self) -> None:
        """Let another process use the folder."""
        lock, self._lock = self._lock, -1
        os.close(lock)

    def _files(self) -> Iterable[Path]:
        return [path for path in self.path.iterdir() if _NAME.fullmatch(path.name)]

    def _sync_folder(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0
