"""The file of a SQLite database."""

import os
from pathlib import Path

from weir_core.errors.startup import StartupError


class DatabaseMoved(Exception):
    """The file is not where it was at the start; the message says what to do."""


class DatabaseFile:
    """A file that must stay where it is.

    Who has it open goes on with it when it is deleted or moved: what is written then is lost.

    Args:
        path: of the file.
        what: it is, for people, such as `the ledger`.
        knob: the setting that names it.
    """

    def __init__(self, path: Path, what: str, knob: str) -> None:
        self._path = path
        self._what = what
        self._knob = knob
        self._identity: tuple[int, int] | None = None

    def make(self) -> None:
        """Makes the file, for its owner alone, with its folder, and remembers which it is.

        Raises:
            StartupError: it cannot be made.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._identity = self._found()
        except OSError as error:
            raise StartupError(
                f"{self._what} {self._path} cannot be written: {error.strerror}; "
                f"change {self._knob}"
            ) from None

    def check_same(self) -> None:
        """Checks that the file is the one that `make` made or found, if it was called.

        Raises:
            DatabaseMoved: it is not there, or another is in its place.
        """
        if self._identity is None:
            return
        try:
            same = self._found() == self._identity
        except OSError as error:
            raise DatabaseMoved(f"{self._path}: {error.strerror}; {_WAY_OUT}") from None
        if not same:
            raise DatabaseMoved(f"{self._path} is another file than at the start; {_WAY_OUT}")

    def _found(self) -> tuple[int, int]:
        there = self._path.stat()
        return there.st_dev, there.st_ino


_WAY_OUT = "put the file back, or start the service again to use what is there now"
