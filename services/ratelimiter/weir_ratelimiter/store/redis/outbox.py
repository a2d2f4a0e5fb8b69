"""Events that wait for a ledger, one stream a shard."""

import math
from collections.abc import Sequence

from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.store.base import Mark, OutboxEntry
from weir_ratelimiter.store.redis import stored
from weir_ratelimiter.store.redis.keyspace import NOBODY, SHARDS, outbox_key, shard_of
from weir_ratelimiter.store.redis.server import RedisServer
from weir_ratelimiter.store.redis.shards import Shards

_SHARDS_AT_ONCE = 64
_MARKED_AT_ONCE = 128


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

    async def mark(self, tenant_id: str) -> Mark:
        """When the last event was written, by shard: those of a tenant, or all."""
        # What an adjustment writes of a limit of all tenants lies with nobody on a cluster.
        shards = sorted({shard_of(tenant_id), shard_of(NOBODY)}) if tenant_id else range(SHARDS)
        last: dict[int, int] = {}
        for start in range(0, len(shards), _MARKED_AT_ONCE):
            some = shards[start : start + _MARKED_AT_ONCE]
            found = await self._server.ask(
                [("XREVRANGE", outbox_key(shard), "+", "-", "COUNT", 1) for shard in some]
            )
            used = {s: _number(rows[0][0])[0] for s, rows in zip(some, found, strict=True) if rows}
            await self._shards.look_at(list(used))
            last |= used
        return last

    async def is_past(self, mark: Mark) -> bool:
        """Whether nothing is left of what was written by then; asked of the server in the end."""
        if not self._shards.all_after(mark):
            return False
        shards = list(mark)
        for start in range(0, len(shards), _MARKED_AT_ONCE):
            some = shards[start : start + _MARKED_AT_ONCE]
            found = await self._server.ask(
                [("XRANGE", outbox_key(s), "-", mark[s], "COUNT", 1) for s in some]
            )
            left = [shard for shard, rows in zip(some, found, strict=True) if rows]
            await self._shards.look_at(left)
            if left:
                return False
        return True

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
