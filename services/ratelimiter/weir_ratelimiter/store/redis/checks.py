"""What a server must be set to before limits are entrusted to it, and whose state it holds."""

import secrets

from redis.exceptions import BusyLoadingError

from weir_core.errors.startup import StartupError
from weir_ratelimiter.store.redis.faults import unavailable
from weir_ratelimiter.store.redis.server import RedisServer

EPOCH_KEY = "weir:limits:epoch"


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

    Raises:
        WeirError: LIMITER_UNAVAILABLE if it does not answer.
    """
    made = ("SET", EPOCH_KEY, secrets.token_hex(8), "NX")
    _, epoch = await server.ask([made, ("GET", EPOCH_KEY)])
    return bytes(epoch).decode()
