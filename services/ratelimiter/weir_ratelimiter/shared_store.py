"""Opens the store that several ratelimiters share, with what stands in for it while it is away."""

from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry

from weir_core.repeating import Repeating
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.memory_options import memory_options
from weir_ratelimiter.opened_store import OpenedStore
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.steady_time import SteadyTime
from weir_ratelimiter.store.address import shown
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.degraded.assembly import AwayOptions, assemble
from weir_ratelimiter.store.degraded.shared import Connected
from weir_ratelimiter.store.redis.opening import open_redis
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.replicas import RedisReplicas
from weir_ratelimiter.store.redis.server import RedisServer

_WATCH_INTERVAL_S = 0.1
_LOCAL_FOLDER = "while-away"

_log = get_logger(__name__)


async def open_shared(
    address: str,
    settings: RateLimiterSettings,
    time: SteadyTime,
    registry: CollectorRegistry,
    limits_of: Callable[[Subject], Limits],
) -> OpenedStore:
    """See `open_store`."""

    async def connect() -> Connected:
        return await _connect(address, settings)

    parts = assemble(
        connect,
        _away_options(settings),
        now_ms=time.now_ms,
        limits_of=limits_of,
        registry=registry,
    )
    try:
        await parts.shared.open()
    except BaseException:
        await parts.store.close()
        raise
    _log.info("store_opened", address=shown(address), degraded=parts.mode.degraded)
    maintenance = Repeating("maintenance", parts.local.maintain, settings.fsync_interval_s)
    watch = Repeating("store-watch", parts.watch.tick, _WATCH_INTERVAL_S)
    return OpenedStore(parts.store, [maintenance, watch], lambda: parts.mode.degraded)


async def _connect(address: str, settings: RateLimiterSettings) -> Connected:
    options = RedisOptions(
        timeout_s=settings.store_timeout_s,
        remember_ms=settings.remember_s * 1_000,
        most_events=settings.ledger_most_events,
        namespace=settings.store_namespace,
    )
    store = await open_redis(address, options)
    replicas = RedisReplicas(RedisServer.of(address, options.timeout_s, options.namespace))
    in_parts = address.startswith("redis+cluster:")
    return Connected(store, replicas, lambda: store.states_lost, in_parts)


def _away_options(settings: RateLimiterSettings) -> AwayOptions:
    return AwayOptions(
        folder=Path(settings.journal) / _LOCAL_FOLDER,
        memory=memory_options(settings),
        timeout_s=settings.store_timeout_s,
        admits=settings.when_store_is_away == "share",
        budget_credit=settings.degraded_budget_credit,
        least_replicas=settings.least_replicas,
        most_pending=settings.most_pending,
    )
