"""The lease in a Redis or Valkey."""

from typing import Any
from urllib.parse import urlsplit

import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from weir_core.errors.startup import StartupError
from weir_scheduler.leadership.lease import Bid
from weir_scheduler.leadership.lease_store import StoreAway

# ARGV: what is expected (empty to look only), the new value, and what to hold instead of nothing.
_SCRIPT = """
local held = redis.call('GET', KEYS[1])
if not held then
  held = ARGV[3]
  redis.call('SET', KEYS[1], held)
end
if ARGV[1] ~= '' and held == ARGV[1] then
  held = ARGV[2]
  redis.call('SET', KEYS[1], held)
end
return held
"""
_NOTE_KEPT_S = 24 * 3600
_FAULTS = (exceptions.RedisError, OSError, TimeoutError)


class RedisLeaseStore:
    """One key, changed by one script: repeated, it does nothing more.

    No expiry is set: time is measured by the candidates alone (see `Lease`), so that a jump of
    the server's clock or a pause of the server frees nothing.

    Args:
        url: `redis://[user:password@]host:port/db`, `rediss://` or `unix://path`.
        key: of the lease.
        timeout_s: of connecting and of each answer.

    Raises StartupError when the URL is none.
    """

    def __init__(self, url: str, key: str, timeout_s: float) -> None:
        try:
            self._client = aioredis.Redis.from_url(
                url,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
                decode_responses=True,
                protocol=2,
                driver_info=None,
            )
        except ValueError as error:
            scheme = urlsplit(url).scheme
            raise StartupError(f"leader_store has the scheme {scheme!r}: {error}") from None
        self._key = key
        # Loads itself again where the server has lost it.
        self._script: Any = self._client.register_script(_SCRIPT)

    async def bid(self, bid: Bid) -> str:
        """See `LeaseStore`."""
        try:
            held = await self._script(keys=[self._key], args=[bid.expected, bid.value, bid.vacancy])
        except _FAULTS as error:
            raise StoreAway(str(error) or type(error).__name__) from None
        return str(held)

    async def note(self, text: str) -> None:
        """See `LeaseStore`."""
        try:
            await self._client.set(f"{self._key}:note", text, ex=_NOTE_KEPT_S)
        except _FAULTS as error:
            raise StoreAway(str(error) or type(error).__name__) from None

    async def noted(self) -> str:
        """See `LeaseStore`."""
        try:
            return str(await self._client.get(f"{self._key}:note") or "")
        except _FAULTS as error:
            raise StoreAway(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        """See `LeaseStore`."""
        await self._client.aclose()
