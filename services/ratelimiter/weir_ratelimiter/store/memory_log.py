"""The memory store's state and its journal, kept in step."""

import asyncio
import secrets
from pathlib import Path
from typing import Self

import msgspec

from weir_core.errors.startup import StartupError
from weir_ratelimiter.domain.change import Change
from weir_ratelimiter.store import frames
from weir_ratelimiter.store.frames import Acknowledged
from weir_ratelimiter.store.journal import FsyncPolicy, Journal
from weir_ratelimiter.store.journal_files import JournalFolder
from weir_ratelimiter.store.memory_state import MemoryState
from weir_ratelimiter.store.snapshot import Snapshot, restore

_FRAMES_PER_TURN = 500


class MemoryOptions(msgspec.Struct, frozen=True):
    """How much is remembered, and how durably.

    Attributes:
        fsync: `always` before each reply; `interval` and `never` leave it to `sync`.
        horizon_ms: how long the end of a reservation is remembered, milliseconds.
        most_ended: how many ends are remembered.
        most_events: how many events wait for the ledger before requests are refused.
        compact_bytes: growth of the journal at which `compact` is due.
    """

    fsync: FsyncPolicy = "interval"
    horizon_ms: int = 24 * 3600 * 1000
    most_ended: int = 200_000
    most_events: int = 100_000
    compact_bytes: int = 64 * 1024 * 1024


class MemoryLog:
    """Appends every change to the journal, then applies it to the state.

    Attributes:
        state: what all appended changes amount to; only read it.
        epoch: id of this state, made when its first journal was.
    """

    def __init__(
        self, folder: JournalFolder, options: MemoryOptions, state: MemoryState, epoch: str
    ) -> None:
        self.state = state
        self.epoch = epoch
        self._folder = folder
        self._options = options
        self._journal: Journal
        self._compacted_size = 0
        self._meanwhile: list[bytes] | None = None

    @classmethod
    def open(cls, path: Path, options: MemoryOptions, now_ms: int) -> Self:
        """Replay the journal in `path` and write it anew, compacted.

        Raises:
            StartupError: the folder is in use, not writable, or its journal damaged.
        """
        folder = JournalFolder(path)
        try:
            return cls._replayed(folder, options, now_ms)
        except BaseException:
            folder.close()
            raise

    @classmethod
    def _replayed(cls, folder: JournalFolder, options: MemoryOptions, now_ms: int) -> Self:
        state = MemoryState(horizon_ms=options.horizon_ms, most_ended=options.most_ended)
        latest = folder.latest()
        try:
            epoch = restore([] if latest is None else folder.read(latest), state)
            log = cls(folder, options, state, epoch or secrets.token_hex(8))
            log._write_snapshot(now_ms)
        except ValueError as error:
            raise StartupError(f"{latest}: {error}") from error
        except OSError as error:
            raise StartupError(
                f"the journal in {folder.path} cannot be written: {error.strerror}"
            ) from error
        return log

    @property
    def most_events(self) -> int:
        """How many events may wait for the ledger while requests are admitted."""
        return self._options.most_events

    @property
    def journal_bytes(self) -> int:
        """Size of the journal."""
        return self._journal.size

    @property
    def journal_path(self) -> Path:
        """The file that is being written."""
        return self._journal.path

    @property
    def compaction_due(self) -> bool:
        """Whether the journal has outgrown its snapshot."""
        grown = self._journal.size - self._compacted_size
        return grown > max(self._options.compact_bytes, self._compacted_size)

    def commit(self, change: Change) -> None:
        """Write a change down, then apply it.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if it could not be written; it is not applied then.
        """
        self._append(frames.encode(change))
        self.state.apply(change)

    def acknowledge(self, sequences: tuple[int, ...]) -> None:
        """Forget events that the ledger has. Raises as `commit`."""
        self._append(frames.encode(Acknowledged(sequences)))
        self.state.acknowledge(sequences)

    async def durable(self) -> None:
        """Return when what was committed is as durable as a reply needs.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if the disk failed.
        """
        if self._options.fsync == "always":
            await self._journal.sync()

    async def sync(self) -> None:
        """Bring the journal to the disk, unless the policy is `never`. Raises as `durable`."""
        if self._options.fsync != "never":
            await self._journal.sync()

    async def compact(self, now_ms: int) -> None:
        """Replace the journal by a snapshot of the state, while decisions go on.

        Raises:
            WeirError, OSError: it failed; the present journal stays in use.
        """
        self.state.forget_idle(now_ms)
        snapshot = Snapshot(self.state, self.epoch, now_ms)
        draft = self._folder.begin(self._folder.next_path())
        self._meanwhile = []
        try:
            for count, frame in enumerate(snapshot.frames()):
                draft.append(frames.encode(frame))
                if count % _FRAMES_PER_TURN == 0:
                    await asyncio.sleep(0)
            await draft.sync()
            self._take_over(draft, self._meanwhile)
        except BaseException:
            draft.discard()
            raise
        finally:
            self._meanwhile = None

    def close(self) -> None:
        """Bring the journal to the disk and release the folder."""
        self._journal.close()
        self._folder.close()

    def _append(self, frame: bytes) -> None:
        self._journal.append(frame)
        if self._meanwhile is not None:
            self._meanwhile.append(frame)

    def _write_snapshot(self, now_ms: int) -> None:
        self.state.forget_idle(now_ms)
        draft = self._folder.begin(self._folder.next_path())
        for frame in Snapshot(self.state, self.epoch, now_ms).frames():
            draft.append(frames.encode(frame))
        self._folder.publish(draft)
        self._journal = draft
        self._compacted_size = draft.size

    def _take_over(self, draft: Journal, meanwhile: list[bytes]) -> None:
        compacted = draft.size
        for frame in meanwhile:
            draft.append(frame)
        self._folder.publish(draft)
        old, self._journal = self._journal, draft
        self._compacted_size = compacted
        old.discard()
