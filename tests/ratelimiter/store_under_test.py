"""Stores that the account machine drives, each under a clock that the machine moves.

To hold another store to the model, write a `StoreUnderTest` and give it to the machine.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.ratelimiter.valkey import Valkey
from weir_ratelimiter.store.base import Store
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

HORIZON_MS = 10 * 366 * 86_400_000
"""Nothing is forgotten in a history: the model forgets nothing."""

# Thousands of journals are written and replayed; none has to survive this machine.
_RAM = "/dev/shm" if Path("/dev/shm").is_dir() else None


class StoreUnderTest(Protocol):
    """One store and its ways to fail."""

    @property
    def store(self) -> Store:
        """The store, another one after a crash."""

    async def start(self, now_ms: Callable[[], int]) -> None:
        """Begin empty; `now_ms` is the time."""

    async def crash(self, torn: bytes) -> None:
        """End as kill -9 does, in the middle of writing `torn`, and begin again."""

    async def tidy(self) -> None:
        """Housekeeping, which nobody must notice."""

    async def stop(self) -> None:
        """End, and leave nothing behind."""


class MemoryUnderTest:
    """The memory store. After a crash its journal is all there is."""

    store: MemoryStore

    def __init__(self) -> None:
        self._options = MemoryOptions(horizon_ms=HORIZON_MS)

    async def start(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._folder = tempfile.TemporaryDirectory(dir=_RAM)
        self._open()

    async def crash(self, torn: bytes) -> None:
        path = self._log.journal_path
        content = path.read_bytes()
        await self.store.close()
        path.write_bytes(content + torn)
        self._open()

    async def tidy(self) -> None:
        await self._log.compact(self._now_ms())

    async def stop(self) -> None:
        await asyncio.to_thread(self._log.close)
        self._folder.cleanup()

    def _open(self) -> None:
        self._log = MemoryLog.open(Path(self._folder.name), self._options, self._now_ms())
        self.store = MemoryStore(self._log, self._now_ms)


class RedisUnderTest:
    """The store in a real server. A crash is that of its ratelimiter, and the scripts are gone."""

    store: RedisStore

    def __init__(self, server: Valkey) -> None:
        self._server = server

    async def start(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._server.flush()
        await self._open()

    async def crash(self, torn: bytes) -> None:
        await self.store.close()
        self._server.flush_scripts()
        await self._open()

    async def tidy(self) -> None:
        self._server.flush_scripts()

    async def stop(self) -> None:
        await self.store.close()

    async def _open(self) -> None:
        options = RedisOptions(timeout_s=10, remember_ms=HORIZON_MS)
        self.store = await RedisStore.open(self._server.url, options, forced_ms=self._now_ms)
