"""Opens the store that an address of Redis means."""

from weir_ratelimiter.store.redis.cluster_store import ClusterStore
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore


async def open_redis(address: str, options: RedisOptions) -> RedisStore | ClusterStore:
    """The store on a primary, or on a cluster for `redis+cluster://`. Raises as they do."""
    if address.startswith("redis+cluster://"):
        return await ClusterStore.open(address, options)
    return await RedisStore.open(address, options)
