"""Events that wait for a ledger, one stream a shard."""

import math
from collections.abc import Sequence

from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.store.base import OutboxEntry
from weir_ratelimiter.store.redis import stored
from weir_ratelimiter.store.redis.keyspace import outbox_key
from weir_ratelimiter.store.redis.server import RedisServer
from weir_ratelimiter.store.redis.shards import Shards

_SHARDS_AT_ONCE = 64


class Outbox:
    """Reads and trims the streams. Every method raises WeirError(LIMITER_UNAVAILABLE)."""

    def __init__(self, server: RedisServer, shards: Shards) -> None:
        self._server = server
        self._shards = shards

    async def oldest(self, most: int) -> Sequence[OutboxEntry]:
        """Events of the shards that have the oldest ones, at most `most`."""
        shards = self._shards.with_events()[:_SHARDS_AT_ONCE]
        if not shards or most <= 0:
            return []
        each = math.ceil(most / len(shards))
        found = await self._server.ask(
            [("XRANGE", outbox_key(shard), "-", "+", "COUNT", each) for shard in shards]
        )
        await self._shards.look_at(
            [shard for shard, row in zip(shards, found, strict=True) if not row]
        )
        rows = [
            (*_number(entry_id), shard, fields)
            for shard, entries in zip(shards, found, strict=True)
            for entry_id, fields in entries
        ]
        rows.sort(key=lambda row: row[:3])
        return [
            OutboxEntry(f"{shard}:{ms}-{count}", _event(fields))
            for ms, count, shard, fields in rows[:most]
        ]

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Forget events; unknown ids are passed over."""
        by_shard: dict[int, list[str]] = {}
        for name in ids:
            shard, _, entry_id = name.partition(":")
            by_shard.setdefault(int(shard), []).append(entry_id)
        await self._server.ask(
            [("XDEL", outbox_key(shard), *entries) for shard, entries in by_shard.items()]
        )
        await self._shards.look_at(list(by_shard))


def _event(fields: dict[bytes, bytes]) -> LedgerEvent:
    ended = fields.get(b"e")
    return stored.grant_from(fields[b"g"]) if ended is None else stored.event_from(ended)


def _number(entry_id: bytes) -> tuple[int, int]:
    ms, _, count = entry_id.partition(b"-")
    return int(ms), int(count)
