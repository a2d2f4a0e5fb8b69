"""The file of a SQLite ledger."""

import os
from pathlib import Path

from weir_core.errors.startup import StartupError
from weir_ratelimiter.ledger.unusable import LedgerUnusable


class LedgerFile:
    """A file that must stay where it is.

    Who has it open goes on with it when it is deleted or moved: what is written then is lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    def make(self) -> None:
        """Make the file, for its owner alone, with its folder, and remember which it is.

        Raises:
            StartupError: it cannot be made.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._identity = self._found()
        except OSError as error:
            raise StartupError(
                f"the ledger {self._path} cannot be written: {error.strerror}; change ledger_url"
            ) from None

    def check_same(self) -> None:
        """Check that the file is the one that was made or found.

        Raises:
            LedgerUnusable: it is not there, or another is in its place.
        """
        try:
            same = self._found() == self._identity
        except OSError as error:
            raise LedgerUnusable(f"{self._path}: {error.strerror}; {_WAY_OUT}") from None
        if not same:
            raise LedgerUnusable(f"{self._path} is another file than at the start; {_WAY_OUT}")

    def _found(self) -> tuple[int, int]:
        there = self._path.stat()
        return there.st_dev, there.st_ino


_WAY_OUT = "put the file back, or start the ratelimiter again to use what is there now"
