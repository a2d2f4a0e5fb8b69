"""Prefixes that this gateway has read lately."""

import asyncio
import time
from collections import OrderedDict

from weir_core.errors import Reason, WeirError
from weir_gateway.prefixes.prefix import Prefix
from weir_gateway.prefixes.store import PrefixStore

_FRESH_S = 0.9
_STALE_S = 300.0
_MOST = 2_000
_MOST_CHARACTERS = 50_000_000

_Key = tuple[str, str, int]


class PrefixShelf:
    """Reads a prefix from the database once a second at most; the least recently used go first.

    While the database is away, what was read within the last five minutes is used on.

    Args:
        store: where from.
    """

    def __init__(self, store: PrefixStore) -> None:
        self._store = store
        self._kept: OrderedDict[_Key, tuple[Prefix, float]] = OrderedDict()
        self._characters = 0
        self._reading: dict[_Key, asyncio.Task[Prefix | None]] = {}

    async def find(self, tenant_id: str, name: str, version: int) -> Prefix | None:
        """As `PrefixStore.find`, up to a second late."""
        key = tenant_id, name, version
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[1] < _FRESH_S:
            self._kept.move_to_end(key)
            return kept[0]
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(key))
            reading.add_done_callback(lambda done: self._end(key, done))
        # Others wait for the same read.
        return await asyncio.shield(reading)

    def forget(self, tenant_id: str, name: str) -> None:
        """Something about it was changed here."""
        for key in [key for key in self._kept if key[:2] == (tenant_id, name)]:
            self._drop(key)
        for key in [key for key in self._reading if key[:2] == (tenant_id, name)]:
            # What it brings may be old.
            del self._reading[key]

    async def _read(self, key: _Key) -> Prefix | None:
        began = time.monotonic()
        kept = self._kept.get(key)
        try:
            found = await self._store.find(*key)
        except WeirError as error:
            away = error.reason is Reason.STATE_UNAVAILABLE
            if away and kept is not None and began - kept[1] < _STALE_S:
                return kept[0]
            raise
        if self._reading.get(key) is asyncio.current_task():
            self._drop(key)
            if found is not None:
                self._keep(key, found, began)
        return found

    def _end(self, key: _Key, reading: asyncio.Task[Prefix | None]) -> None:
        if self._reading.get(key) is reading:
            del self._reading[key]
        if not reading.cancelled():
            # Whoever waited may have left.
            reading.exception()

    def _keep(self, key: _Key, prefix: Prefix, read_at: float) -> None:
        self._kept[key] = prefix, read_at
        self._characters += prefix.content.size
        while len(self._kept) > _MOST or self._characters > _MOST_CHARACTERS:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._characters -= kept[0].content.size
