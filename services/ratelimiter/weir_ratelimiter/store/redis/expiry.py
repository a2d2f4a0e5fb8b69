"""Open reservations by the end of their leases."""

from collections.abc import Sequence

from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.store.redis import stored
from weir_ratelimiter.store.redis.keyspace import expiry_key, reservation_key_in
from weir_ratelimiter.store.redis.server import Command, RedisServer
from weir_ratelimiter.store.redis.shards import Shards

_AT_ONCE = 128

Place = tuple[int, bytes]
"""A shard, and the id of a reservation in it."""


class ExpirySets:
    """Reads the sets of all shards. Every method raises WeirError(LIMITER_UNAVAILABLE)."""

    def __init__(self, server: RedisServer, shards: Shards) -> None:
        self._server = server
        self._shards = shards

    async def lapsed(self, now_ms: int, most: int) -> Sequence[Reservation]:
        """Reservations whose leases have lapsed, at most `most`, longest first."""
        await self._shards.look_at(self._shards.due(now_ms)[:_AT_ONCE])
        shards = self._shards.due(now_ms)[:_AT_ONCE]
        limit = ("WITHSCORES", "LIMIT", 0, most)
        found = await self._server.ask(
            [("ZRANGEBYSCORE", expiry_key(shard), "-inf", now_ms, *limit) for shard in shards]
        )
        rows = [
            (float(ends_ms), shard, member)
            for shard, rows in zip(shards, found, strict=True)
            for member, ends_ms in zip(rows[::2], rows[1::2], strict=True)
        ]
        return await self._read([(shard, member) for _, shard, member in sorted(rows)[:most]])

    async def after(self, latest_ms: int) -> Sequence[Reservation]:
        """Reservations whose leases end after `latest_ms`."""
        shards = self._shards.too_late(latest_ms)
        found = await self._server.ask(
            [("ZRANGEBYSCORE", expiry_key(shard), f"({latest_ms}", "+inf") for shard in shards]
        )
        places = zip(shards, found, strict=True)
        return await self._read([(shard, member) for shard, row in places for member in row])

    async def all_in(self, shard: int) -> Sequence[Reservation]:
        """All open reservations of a shard."""
        (members,) = await self._server.ask([("ZRANGE", expiry_key(shard), 0, -1)])
        return await self._read([(shard, member) for member in members])

    async def _read(self, places: Sequence[Place]) -> Sequence[Reservation]:
        reservations: list[Reservation] = []
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            commands: list[Command] = [
                ("GET", reservation_key_in(shard, member.decode())) for shard, member in some
            ]
            values = await self._server.ask(commands)
            reservations += [stored.reservation_from(value) for value in values if value]
        return [reservation for reservation in reservations if reservation.open]
