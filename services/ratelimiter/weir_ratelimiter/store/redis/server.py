"""The connection to Redis or Valkey: a call is repeated only where that is safe."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from weir_core.errors.startup import StartupError
from weir_ratelimiter.store.redis.batches import Batches
from weir_ratelimiter.store.redis.faults import INDETERMINATE, unavailable
from weir_ratelimiter.store.redis.scripts import LIBRARY

Reply = list[Any]
Command = tuple[str, str, *tuple[str | bytes | int, ...]]
"""Name, key, and what else there is."""


_MOST_CONNECTIONS = 64
_CLUSTER = "redis+cluster"
_UNKNOWN = "Function not found"
_FAULTS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)


class RedisServer:
    """A single primary, or a cluster of them.

    Every method raises WeirError(LIMITER_UNAVAILABLE) if it does not serve.

    Attributes:
        address: host and port, without credentials.
        timeout_s: of each answer, seconds.
        is_cluster: keys of different slots lie on different servers.
    """

    def __init__(
        self,
        client: aioredis.Redis | aioredis.RedisCluster,
        address: str,
        timeout_s: float,
        namespace: str = "",
    ) -> None:
        self._client = client
        self._batches = None if isinstance(client, aioredis.RedisCluster) else Batches(client)
        # Before the tag in braces, so that it moves no key to another slot.
        self._prefix = f"{namespace}:" if namespace else ""
        self.address = address
        self.timeout_s = timeout_s
        self.is_cluster = isinstance(client, aioredis.RedisCluster)

    @classmethod
    def of(cls, url: str, timeout_s: float, namespace: str = "") -> Self:
        """Prepare connections; nothing is connected yet.

        Args:
            url: `redis://[user:password@]host:port/db`, `rediss://`, `unix://path`, or
                `redis+cluster://[user:password@]host:port` for any node of a cluster.
            timeout_s: of connecting and of each answer, seconds.
            namespace: begins every key, so that several deployments can share a server.

        Raises:
            StartupError: the URL is malformed.
        """
        try:
            is_cluster = urlsplit(url).scheme == _CLUSTER
            client = _cluster(url, timeout_s) if is_cluster else _primary(url, timeout_s)
            return cls(client, _address(url), timeout_s, namespace)
        except ValueError as error:
            raise StartupError(f"`store` is not a URL of Redis: {error}") from error

    async def run(
        self, function: str, keys: Sequence[str], arguments: Sequence[bytes]
    ) -> Reply | bytes:
        """Call a function that may be called twice with the same outcome.

        A server that does not know the library is given it. Where it is not known whether a call
        was carried out, it is made once more.
        """
        try:
            return await self._run(function, keys, arguments)
        except INDETERMINATE:
            pass
        except _FAULTS as error:
            raise unavailable(self.address, error) from error
        try:
            return await self._run(function, keys, arguments)
        except _FAULTS as error:
            raise unavailable(self.address, error) from error

    async def ask(self, commands: Sequence[Command]) -> Reply:
        """Answers to plain commands on one key each, sent together; not a transaction."""
        if not commands:
            return []
        return await self._send(
            [(name, f"{self._prefix}{key}", *rest) for name, key, *rest in commands]
        )

    async def load(self) -> None:
        """Have a primary know the library beforehand; a cluster's nodes learn it as they go."""
        if not self.is_cluster:
            await self._send([("FUNCTION LOAD", "REPLACE", LIBRARY.source)])

    async def infos(self, section: str) -> Sequence[Mapping[str, Any]]:
        """What every primary says of itself."""
        try:
            if not isinstance(self._client, aioredis.RedisCluster):
                return [await self._client.info(section)]
            await self._client.initialize()
            nodes = self._client.get_primaries()
            return [await self._client.info(section, target_nodes=node) for node in nodes]
        except _FAULTS as error:
            raise unavailable(self.address, error) from error

    async def close(self) -> None:
        """Release the connections."""
        await self._client.aclose()

    async def _send(self, commands: Sequence[Command]) -> Reply:
        try:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            answers: Reply = await pipeline.execute()
        except _FAULTS as error:
            raise unavailable(self.address, error) from error
        return answers

    async def _run(
        self, function: str, keys: Sequence[str], arguments: Sequence[bytes]
    ) -> Reply | bytes:
        keys = [self._prefix + key for key in keys] if self._prefix else keys
        run = await self._runner(keys[0])
        call = ("FCALL", function, len(keys), *keys, *arguments)
        try:
            reply = await run(*call)
        except exceptions.ResponseError as error:
            if _UNKNOWN not in str(error):
                raise
            await run("FUNCTION LOAD", "REPLACE", LIBRARY.source)
            reply = await run(*call)
        answer: Reply | bytes = reply
        return answer

    async def _runner(self, key: str) -> Callable[..., Awaitable[Any]]:
        """What sends a call to where the key is.

        Left alone, a cluster's client asks a node first which words are keys.
        """
        if not isinstance(self._client, aioredis.RedisCluster):
            assert self._batches
            return self._batches.run
        await self._client.initialize()
        node = self._client.get_node_from_key(key)
        return partial(self._client.execute_command, target_nodes=node)


def _address(url: str) -> str:
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"


def _primary(url: str, timeout_s: float) -> aioredis.Redis:
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
    return aioredis.Redis.from_pool(pool)


def _cluster(url: str, timeout_s: float) -> aioredis.RedisCluster:
    return aioredis.RedisCluster.from_url(
        url.replace(_CLUSTER, "redis", 1),
        max_connections=_MOST_CONNECTIONS,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 1),
        protocol=2,
        driver_info=None,
    )
