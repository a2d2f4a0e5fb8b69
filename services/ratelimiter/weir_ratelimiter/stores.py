"""Opens the store that the settings name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.periodic import Periodic
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.steady_time import SteadyTime
from weir_ratelimiter.store.address import MEMORY, check_address, shown
from weir_ratelimiter.store.base import Limits, Store
from weir_ratelimiter.store.degraded.assembly import AwayOptions, assemble
from weir_ratelimiter.store.degraded.shared import Connected
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions
from weir_ratelimiter.store.redis.opening import open_redis
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.replicas import RedisReplicas
from weir_ratelimiter.store.redis.server import RedisServer
from weir_ratelimiter.store_metrics import StoreCollector

_WATCH_INTERVAL_S = 0.1
_LOCAL_FOLDER = "while-away"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store, what to start once the limiter is there, and whether it works on a share."""

    store: Store
    tasks: Sequence[Periodic]
    degraded: Callable[[], bool] = lambda: False


async def open_store(
    settings: RateLimiterSettings,
    time: SteadyTime,
    registry: CollectorRegistry,
    limits_of: Callable[[Subject], Limits],
) -> OpenedStore:
    """Open the store that `settings.store` names.

    Args:
        settings: of the process.
        time: for what is decided in this process.
        registry: of the metrics.
        limits_of: limits of a subject by key, as configured now; asked by `tasks` alone.

    Raises:
        StartupError: the setting is no address, or the store cannot be used. A shared store
            that does not answer is no reason: it may come back.
    """
    address = check_address(settings.store.get_secret_value())
    if address == MEMORY:
        return open_memory(settings, time, registry)
    return await _open_shared(address, settings, time, registry, limits_of)


def open_memory(
    settings: RateLimiterSettings, time: SteadyTime, registry: CollectorRegistry
) -> OpenedStore:
    """The store of one machine, with its journal replayed.

    Raises:
        StartupError: the journal's folder is in use, not writable, or damaged.
    """
    log = MemoryLog.open(Path(settings.journal), _memory_options(settings), time.now_ms())
    store = MemoryStore(log, time.now_ms)
    _log.info("journal_replayed", folder=settings.journal, **store.stats())
    StoreCollector(store, registry)
    return OpenedStore(store, [Periodic("maintenance", settings.fsync_interval_s, store.maintain)])


async def _open_shared(
    address: str,
    settings: RateLimiterSettings,
    time: SteadyTime,
    registry: CollectorRegistry,
    limits_of: Callable[[Subject], Limits],
) -> OpenedStore:
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
    maintenance = Periodic("maintenance", settings.fsync_interval_s, parts.local.maintain)
    watch = Periodic("store-watch", _WATCH_INTERVAL_S, parts.watch.tick)
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
        memory=_memory_options(settings),
        timeout_s=settings.store_timeout_s,
        admits=settings.when_store_is_away == "share",
        budget_credit=settings.degraded_budget_credit,
        least_replicas=settings.least_replicas,
        most_pending=settings.most_pending,
    )


def _memory_options(settings: RateLimiterSettings) -> MemoryOptions:
    return MemoryOptions(
        fsync=settings.fsync,
        horizon_ms=settings.remember_s * 1_000,
        most_ended=settings.remember_most,
        compact_bytes=settings.compact_bytes,
        most_events=settings.ledger_most_events,
    )
