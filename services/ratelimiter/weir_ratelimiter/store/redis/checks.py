"""What a server must be set to before limits are entrusted to it, and whose state it holds."""

import hashlib
import secrets
from collections.abc import Sequence
from functools import cache
from itertools import count

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import BusyLoadingError

from weir_core.errors.startup import StartupError
from weir_ratelimiter.store.redis.faults import unavailable
from weir_ratelimiter.store.redis.server import RedisServer

EPOCH_KEY = "weir:limits:epoch"
_SLOTS_PER_EPOCH = 128


async def check_server(server: RedisServer) -> None:
    """See that nothing is evicted and everything is written down.

    Raises:
        StartupError: `maxmemory-policy` or `appendonly` is set otherwise.
        WeirError: LIMITER_UNAVAILABLE if it does not answer, or still loads its file.
    """
    for memory in await server.infos("memory"):
        policy = memory.get("maxmemory_policy")
        if policy != "noeviction":
            raise StartupError(
                f"Redis at {server.address} has maxmemory-policy {policy}: it would forget "
                "limits in use; set it to noeviction"
            )
    for persistence in await server.infos("persistence"):
        if persistence.get("loading"):
            # Until it is done it says that appendonly is off.
            raise unavailable(server.address, BusyLoadingError())
        if persistence.get("aof_enabled") != 1:
            raise StartupError(
                f"Redis at {server.address} has appendonly off: limits and unpaid events would "
                "not outlive it; set appendonly to yes"
            )


async def epoch_of(server: RedisServer) -> str:
    """Id of the state that the server holds; made if it holds none yet.

    Of a cluster, the ids of all its nodes in one: each holds a part of the state, and can lose it
    alone.

    Raises:
        WeirError: LIMITER_UNAVAILABLE if it does not answer.
    """
    keys = _cluster_epoch_keys() if server.is_cluster else (EPOCH_KEY,)
    found = await _read(server, keys)
    missing = [key for key, epoch in zip(keys, found, strict=True) if epoch is None]
    if missing:
        await server.ask([("SET", key, secrets.token_hex(8), "NX") for key in missing])
        found = await _read(server, keys)
    epochs = [bytes(epoch) for epoch in found if epoch is not None]
    if len(epochs) == 1:
        return epochs[0].decode()
    return hashlib.blake2b(b"".join(epochs), digest_size=8).hexdigest()


async def _read(server: RedisServer, keys: Sequence[str]) -> Sequence[bytes | None]:
    return await server.ask([("GET", key) for key in keys])


@cache
def _cluster_epoch_keys() -> tuple[str, ...]:
    """Keys in slots a fixed way apart, so that no node of some size is without one."""
    found: dict[int, str] = {}
    for number in count():
        key = f"weir:limits:epoch:{number}"
        found.setdefault(key_slot(key.encode()) // _SLOTS_PER_EPOCH, key)
        if len(found) == REDIS_CLUSTER_HASH_SLOTS // _SLOTS_PER_EPOCH:
            break
    return tuple(found[part] for part in sorted(found))
