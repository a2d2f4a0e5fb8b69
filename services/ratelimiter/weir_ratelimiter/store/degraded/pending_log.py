"""Keeps what the shared store still has to be told, on disk: it survives kill -9."""

import sqlite3
from pathlib import Path
from typing import Self

import msgspec

from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_ratelimiter.store.degraded.pending import Pending
from weir_ratelimiter.store.journal import FsyncPolicy

_SCHEMA = "CREATE TABLE IF NOT EXISTS pending (id TEXT PRIMARY KEY, body BLOB NOT NULL)"
_SYNCHRONOUS: dict[FsyncPolicy, str] = {"always": "FULL", "interval": "NORMAL", "never": "OFF"}

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Pending)


class PendingLog:
    """One row a reservation, the latest news of it; rows go when the shared store has them.

    A row is in the kernel when `put` returns. What a power cut does is as `fsync` says.
    """

    def __init__(self, database: sqlite3.Connection, most: int) -> None:
        self._database = database
        self._most = most
        self._rows = {row.id: row for row in _read(database)}

    @classmethod
    def open(cls, path: Path, *, fsync: FsyncPolicy, most: int) -> Self:
        """Open or make the file.

        Args:
            path: of the file; one process uses it.
            fsync: as of the journal.
            most: rows at which `full` says so.

        Raises:
            StartupError: it cannot be used, or is damaged.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            database = sqlite3.connect(path, isolation_level=None)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(f"PRAGMA synchronous={_SYNCHRONOUS[fsync]}")
            database.execute(_SCHEMA)
            return cls(database, most)
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
            raise StartupError(
                f"{path} holds what the shared store has still to be told and cannot be used: "
                f"{error}; free it or restore it, or move it away to lose that"
            ) from error

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether nothing new should be begun."""
        return len(self._rows) >= self._most

    def get(self, reservation_id: str) -> Pending | None:
        """The news of one reservation."""
        return self._rows.get(reservation_id)

    def rows(self) -> list[Pending]:
        """All news, those of the reservations that have waited longest first."""
        return list(self._rows.values())

    def put(self, pending: Pending) -> None:
        """Keep the latest news of a reservation.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if it could not be written.
        """
        body = _encoder.encode(pending)
        self._write("INSERT OR REPLACE INTO pending VALUES (?, ?)", (pending.id, body))
        self._rows[pending.id] = pending

    def drop(self, pending: Pending) -> None:
        """Forget news that the shared store has, unless there is later news. Raises as `put`."""
        if self._rows.get(pending.id) is pending:
            self._write("DELETE FROM pending WHERE id = ?", (pending.id,))
            del self._rows[pending.id]

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _write(self, statement: str, values: tuple[str | bytes, ...]) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise WeirError(
                Reason.LIMITER_UNAVAILABLE,
                f"what the shared store has still to be told cannot be written: {error}",
                retry_after_s=1.0,
            ) from error


def _read(database: sqlite3.Connection) -> list[Pending]:
    rows = database.execute("SELECT body FROM pending ORDER BY rowid").fetchall()
    return [_decoder.decode(body) for (body,) in rows]
