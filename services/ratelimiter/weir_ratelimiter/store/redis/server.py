"""The connection to Redis or Valkey: a call is repeated only where that is safe."""

from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit

import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from weir_core.errors.startup import StartupError
from weir_ratelimiter.store.redis.faults import INDETERMINATE, unavailable
from weir_ratelimiter.store.redis.scripts import Script

Reply = list[Any]
Command = tuple[str | bytes | int, ...]

_MOST_CONNECTIONS = 64


class RedisServer:
    """A single primary. Every method raises WeirError(LIMITER_UNAVAILABLE) if it does not serve.

    Attributes:
        address: host and port, without credentials.
    """

    def __init__(self, client: aioredis.Redis, address: str) -> None:
        self._client = client
        self.address = address

    @classmethod
    def of(cls, url: str, timeout_s: float) -> Self:
        """Prepare connections to `redis://[user:password@]host:port/db`, or `unix://path`.

        Nothing is connected yet.

        Raises:
            StartupError: the URL is malformed.
        """
        try:
            pool = aioredis.BlockingConnectionPool.from_url(
                url,
                max_connections=_MOST_CONNECTIONS,
                timeout=timeout_s,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                driver_info=None,
            )
            address = _address(url)
        except ValueError as error:
            raise StartupError(f"`store` is not a URL of Redis: {error}") from error
        return cls(aioredis.Redis.from_pool(pool), address)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[bytes]) -> Reply:
        """Run a script that may be run twice with the same outcome.

        A server that does not know the script is given it. Where it is not known whether a call
        was carried out, it is made once more.
        """
        try:
            return await self._run(script, keys, arguments)
        except INDETERMINATE:
            pass
        except exceptions.RedisError as error:
            raise unavailable(self.address, error) from error
        try:
            return await self._run(script, keys, arguments)
        except (exceptions.RedisError, OSError) as error:
            raise unavailable(self.address, error) from error

    async def ask(self, commands: Sequence[Command]) -> Reply:
        """Answers to plain commands, sent together; not a transaction."""
        if not commands:
            return []
        try:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            answers: Reply = await pipeline.execute()
        except (exceptions.RedisError, OSError) as error:
            raise unavailable(self.address, error) from error
        return answers

    async def close(self) -> None:
        """Release the connections."""
        await self._client.aclose()

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[bytes]) -> Reply:
        run: Any = self._client.execute_command
        try:
            reply = await run("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except exceptions.NoScriptError:
            reply = await run("EVAL", script.source, len(keys), *keys, *arguments)
        answer: Reply = reply
        return answer


def _address(url: str) -> str:
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"
