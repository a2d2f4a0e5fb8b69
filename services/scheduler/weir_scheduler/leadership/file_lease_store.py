"""The lease in a file, for the schedulers of one machine."""

import asyncio
import fcntl
import os
from pathlib import Path

from weir_core.errors.startup import StartupError
from weir_scheduler.leadership.lease import Bid
from weir_scheduler.leadership.lease_store import StoreAway

_MOST_BYTES = 4_096
_RETRY_S = 0.005


class FileLeaseStore:
    """One value in a file; an flock makes each bid one step, and is never held for longer.

    Not for network file systems: their locks and caches are not those of one machine.

    Args:
        path: of the file; its folder exists.
        timeout_s: of waiting for the lock.

    Raises StartupError when the file cannot be opened.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartupError(f"leader_store file {path}: {error.strerror}") from None
        self._note = path.with_name(f"{path.name}.note")
        self._timeout_s = timeout_s

    async def bid(self, bid: Bid) -> str:
        """See `LeaseStore`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._lock()
        except TimeoutError:
            raise StoreAway(f"its lock was not free within {self._timeout_s} s") from None
        try:
            return self._swap(bid)
        except OSError as error:
            raise StoreAway(error.strerror or "the file cannot be used") from None
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    async def note(self, text: str) -> None:
        """See `LeaseStore`."""
        draft = self._note.with_suffix(f".{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._note)
        except OSError as error:
            raise StoreAway(error.strerror or "the file cannot be written") from None

    async def noted(self) -> str:
        """See `LeaseStore`."""
        try:
            return self._note.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    async def close(self) -> None:
        """See `LeaseStore`."""
        os.close(self._file)

    async def _lock(self) -> None:
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def _swap(self, bid: Bid) -> str:
        before = os.pread(self._file, _MOST_BYTES, 0).decode()
        held = before or bid.vacancy
        if bid.expected and held == bid.expected:
            held = bid.value
        if held != before:
            # A kill between the two leaves an empty file: a vacancy.
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, held.encode(), 0)
        return held
