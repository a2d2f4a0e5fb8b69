"""How much of each waiting prompt some cache of the pool holds, kept up as the caches change."""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from weir_scheduler.queues.entry import QueueEntry

_READ = 256
_ADVANCED = 32


class PrefixReader(Protocol):
    """What is asked of the pool's prefix index; see `PoolPrefixes`."""

    def leading(self, chain: Sequence[bytes], known: int = 0) -> int:
        """Blocks of a chain that some worker holds, from its first on."""

    def gained_since(self, cursor: int, limit: int) -> tuple[list[bytes], int]:
        """Blocks that became findable after a reading, and the new cursor."""


class NothingCached:
    """A `PrefixReader` of a pool whose caches nobody reports."""

    def leading(self, chain: Sequence[bytes], known: int = 0) -> int:
        """What is known already."""
        return known

    def gained_since(self, cursor: int, limit: int) -> tuple[list[bytes], int]:
        """Nothing."""
        return [], cursor


class CachedPieces:
    """Leading cached pieces of each waiting request.

    Rises are noticed: every request watches for the first piece that it lacks. Falls are seen
    when a request is looked at (`verify`). Each call does a bounded amount of work, so that a
    piece for which everything waits does not stop the queue: the rest follows with the next.

    Args:
        prefixes: the pool's.
    """

    def __init__(self, prefixes: PrefixReader) -> None:
        self._prefixes = prefixes
        self._pieces: dict[str, int] = {}
        self._entries: dict[str, QueueEntry] = {}
        self._watchers: dict[bytes, dict[str, None]] = {}
        self._gained: deque[bytes] = deque()
        self._cursor = 0

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, entry: QueueEntry) -> int:
        """Pieces as last seen; those of a request that has just come are looked up."""
        known = self._pieces.get(entry.request_id)
        return self._prefixes.leading(entry.prefix_hashes) if known is None else known

    def add(self, entry: QueueEntry) -> None:
        """A request begins to wait."""
        if entry.prefix_hashes:
            self._entries[entry.request_id] = entry
            self._set(entry, self._prefixes.leading(entry.prefix_hashes))

    def remove(self, entry: QueueEntry) -> None:
        """A request no longer waits."""
        if self._entries.pop(entry.request_id, None) is not None:
            self._unwatch(entry)
            del self._pieces[entry.request_id]

    def verify(self, entry: QueueEntry) -> bool:
        """Looks a request up again; whether its number has changed."""
        pieces = self._prefixes.leading(entry.prefix_hashes)
        if pieces == self._pieces.get(entry.request_id, 0):
            return False
        self._unwatch(entry)
        self._set(entry, pieces)
        return True

    def risen(self) -> list[QueueEntry]:
        """Requests whose number has risen since; a bounded part of them, the rest next time."""
        digests, self._cursor = self._prefixes.gained_since(self._cursor, _READ)
        self._gained.extend(digest for digest in digests if digest in self._watchers)
        found: list[QueueEntry] = []
        while self._gained and len(found) < _ADVANCED:
            watchers = self._watchers.get(self._gained[0])
            if not watchers:
                self._gained.popleft()
                continue
            entry = self._entries[next(iter(watchers))]
            if not self._advance(entry):
                self._gained.popleft()
            else:
                found.append(entry)
        return found

    def _advance(self, entry: QueueEntry) -> bool:
        """Whether the piece that a request lacked is there; it may be gone again already."""
        known = self._pieces[entry.request_id]
        pieces = self._prefixes.leading(entry.prefix_hashes, known)
        if pieces == known:
            return False
        self._unwatch(entry)
        self._set(entry, pieces)
        return True

    def _set(self, entry: QueueEntry, pieces: int) -> None:
        self._pieces[entry.request_id] = pieces
        if pieces < len(entry.prefix_hashes):
            lacking = entry.prefix_hashes[pieces]
            self._watchers.setdefault(lacking, {})[entry.request_id] = None

    def _unwatch(self, entry: QueueEntry) -> None:
        pieces = self._pieces[entry.request_id]
        if pieces == len(entry.prefix_hashes):
            return
        lacking = entry.prefix_hashes[pieces]
        watchers = self._watchers[lacking]
        del watchers[entry.request_id]
        if not watchers:
            del self._watchers[lacking]
