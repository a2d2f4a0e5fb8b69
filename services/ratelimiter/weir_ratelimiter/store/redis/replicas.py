"""Counts the ratelimiters that use one Redis."""

import contextlib
import secrets

from weir_core.errors import WeirError
from weir_ratelimiter.store.redis.scripts import BEAT
from weir_ratelimiter.store.redis.server import RedisServer

REPLICAS_KEY = "{g}:replicas"


class RedisReplicas:
    """See `Replicas`: a sorted set by the server's own time; who is silent for 5 s is dropped."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._id = secrets.token_hex(8)

    async def beat(self) -> int:
        """See `Replicas`."""
        reply = await self._server.run(BEAT, [REPLICAS_KEY], [self._id.encode()])
        (live,) = reply
        return int(live)

    async def close(self) -> None:
        """See `Replicas`."""
        try:
            with contextlib.suppress(WeirError):
                await self._server.ask([("ZREM", REPLICAS_KEY, self._id)])
        finally:
            await self._server.close()
