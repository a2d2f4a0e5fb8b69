"""Which shards have something due: leases that lapsed, events for the ledger.

A shard that this process touched is known at once. The others are looked at in turns, all of
them every few seconds, as a process that died may have left something anywhere.
"""

import math
from collections.abc import Iterator

from weir_ratelimiter.store.base import Backlog, Mark
from weir_ratelimiter.store.redis.keyspace import SHARDS, expiry_key, outbox_key
from weir_ratelimiter.store.redis.server import Command, RedisServer

_ROUND_S = 4.0
_MOST_AT_ONCE = 128


class Shards:
    """What was last seen of every shard."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._next_lapse_ms = [math.inf] * SHARDS
        self._last_lapse_ms = [0.0] * SHARDS
        self._events = [0] * SHARDS
        self._oldest_ms = [math.inf] * SHARDS
        self.events = 0
        """Events in all shards, as last seen."""
        self._turn = 0
        self._seen_at_s = -math.inf

    def holds_until(self, shard: int, expires_ms: int) -> None:
        """A lease of this shard ends at `expires_ms`."""
        self._next_lapse_ms[shard] = min(self._next_lapse_ms[shard], expires_ms)
        self._last_lapse_ms[shard] = max(self._last_lapse_ms[shard], expires_ms)

    def has_event(self, shard: int, at_ms: int) -> None:
        """An event was written to this shard."""
        self._events[shard] += 1
        self.events += 1
        self._oldest_ms[shard] = min(self._oldest_ms[shard], at_ms)

    def due(self, now_ms: int) -> list[int]:
        """Shards in which a lease may have lapsed, longest first."""
        due = [shard for shard in range(SHARDS) if self._next_lapse_ms[shard] <= now_ms]
        return sorted(due, key=self._next_lapse_ms.__getitem__)

    def too_late(self, latest_ms: int) -> list[int]:
        """Shards in which a lease may end after `latest_ms`."""
        return [shard for shard in range(SHARDS) if self._last_lapse_ms[shard] > latest_ms]

    def with_events(self) -> list[int]:
        """Shards that may have events, the oldest first."""
        found = [shard for shard in range(SHARDS) if self._events[shard]]
        return sorted(found, key=self._oldest_ms.__getitem__)

    def all_after(self, mark: Mark) -> bool:
        """Whether the events of these shards, as last seen, are all later than these times."""
        return all(self._oldest_ms[shard] > written_ms for shard, written_ms in mark.items())

    def backlog(self) -> Backlog:
        """Sum over all shards, as last seen."""
        oldest = min(self._oldest_ms)
        return Backlog(self.events, None if math.isinf(oldest) else int(oldest))

    async def look_at_next(self, monotonic_s: float) -> None:
        """Look at as many shards as are due since the last time."""
        elapsed = monotonic_s - self._seen_at_s
        self._seen_at_s = monotonic_s
        number = SHARDS if math.isinf(elapsed) else math.ceil(SHARDS * elapsed / _ROUND_S)
        for some in _batches(self._turn, min(number, SHARDS)):
            await self.look_at(some)
        self._turn = (self._turn + number) % SHARDS

    async def look_at(self, shards: list[int]) -> None:
        """Look at some shards.

        Raises:
            WeirError: LIMITER_UNAVAILABLE.
        """
        commands: list[Command] = []
        for shard in shards:
            commands.append(("ZCARD", expiry_key(shard)))
            commands.append(("XLEN", outbox_key(shard)))
        numbers = await self._server.ask(commands)
        for shard, leases, events in zip(shards, numbers[::2], numbers[1::2], strict=True):
            self.events += events - self._events[shard]
            self._events[shard] = events
            if not leases:
                self._next_lapse_ms[shard], self._last_lapse_ms[shard] = math.inf, 0.0
            if not events:
                self._oldest_ms[shard] = math.inf
        used = [numbers[2 * place] + numbers[2 * place + 1] for place in range(len(shards))]
        await self._look_into([shard for shard, number in zip(shards, used, strict=True) if number])

    async def _look_into(self, shards: list[int]) -> None:
        commands: list[Command] = []
        for shard in shards:
            expiry = expiry_key(shard)
            commands.append(("ZRANGE", expiry, 0, 0, "WITHSCORES"))
            commands.append(("ZRANGE", expiry, -1, -1, "WITHSCORES"))
            commands.append(("XRANGE", outbox_key(shard), "-", "+", "COUNT", 1))
        answers = await self._server.ask(commands)
        for place, shard in enumerate(shards):
            first, last, oldest = answers[3 * place : 3 * place + 3]
            self._next_lapse_ms[shard] = float(first[1]) if first else math.inf
            self._last_lapse_ms[shard] = float(last[1]) if last else 0.0
            self._oldest_ms[shard] = _written_ms(oldest[0][0]) if oldest else math.inf


def _written_ms(entry_id: bytes) -> int:
    return int(entry_id.split(b"-")[0])


def _batches(first: int, number: int) -> Iterator[list[int]]:
    for start in range(0, number, _MOST_AT_ONCE):
        some = min(_MOST_AT_ONCE, number - start)
        yield [(first + start + place) % SHARDS for place in range(some)]
