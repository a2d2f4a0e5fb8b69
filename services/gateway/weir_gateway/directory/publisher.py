"""Holds the current version of the directory and wakes those who follow it."""

import asyncio
from collections.abc import Callable

from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2 import Delta
from weir_core.clock import Clock
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_gateway.directory.difference import difference, is_empty


class DirectoryPublisher:
    """Numbers, keeps and announces versions; used within one event loop.

    Versions are Unix milliseconds, so that they also grow over a restart and a follower of
    the process before never takes another content for the one it holds.

    Args:
        shared: versions come from a database that several publishers follow. A follower that
            was ahead at another publisher is sent nothing older: a revoked key stays revoked.
    """

    def __init__(self, clock: Clock, *, shared: bool = False) -> None:
        self._clock = clock
        self._shared = shared
        self._index: DirectoryIndex | None = None
        self._last_delta: Delta | None = None
        self._changed = asyncio.Event()
        self._callbacks: list[Callable[[DirectoryIndex], None]] = []
        self._closed = False

    @property
    def index(self) -> DirectoryIndex | None:
        """The current version; None before the first."""
        return self._index

    @property
    def required(self) -> DirectoryIndex:
        """The current version.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE, before the first.
        """
        if self._index is None:
            raise WeirError(Reason.DIRECTORY_UNAVAILABLE, "the directory has not been loaded yet")
        return self._index

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot; not to be changed."""
        return self.required.snapshot

    @property
    def version(self) -> int:
        """The number of the current version."""
        return self.required.version

    def next_version(self) -> int:
        """The number of the next version."""
        now_ms = self._clock.now_ms()
        return max(now_ms, self._index.version + 1) if self._index is not None else now_ms

    def publish(self, snapshot: Snapshot) -> bool:
        """Makes `snapshot` the current version; False when it changes nothing."""
        delta = None
        if self._index is not None:
            delta = difference(self._index.snapshot, snapshot)
            if is_empty(delta):
                return False
        self.advance(DirectoryIndex(snapshot), delta)
        return True

    def advance(self, index: DirectoryIndex, delta: Delta | None) -> None:
        """Makes `index` the current version; `delta` makes it of the one before, if known."""
        self._index = index
        self._last_delta = delta
        self._changed.set()
        self._changed = asyncio.Event()
        for callback in self._callbacks:
            callback(index)

    def on_change(self, callback: Callable[[DirectoryIndex], None]) -> None:
        """Calls back with every new version, and at once with the present one."""
        self._callbacks.append(callback)
        if self._index is not None:
            callback(self._index)

    @property
    def closed(self) -> bool:
        """Nothing is announced any more."""
        return self._closed

    def close(self) -> None:
        """Wakes those who wait for a change: none comes. Idempotent."""
        self._closed = True
        self._changed.set()

    def delta_from(self, version: int) -> Delta | None:
        """The delta from `version` to the current one, if it is still at hand."""
        delta = self._last_delta
        return delta if delta is not None and delta.base_version == version else None

    async def wait_change(self, known_version: int, timeout_s: float) -> bool:
        """Waits until there is another version than `known_version`.

        False when there was none in time, or none comes any more.
        """
        changed = self._changed
        if self._is_news(known_version):
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return False
        return self._is_news(known_version)

    def _is_news(self, known_version: int) -> bool:
        if self._index is None:
            return False
        version = self._index.version
        return version > known_version if self._shared else version != known_version
