"""Opens the store that the settings name."""

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
from weir_ratelimiter.store.address import MEMORY, check_address
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog
from weir_ratelimiter.store_metrics import StoreCollector

_log = get_logger(__name__)


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
    # Redis' library takes a third of a second to import, and one machine does without it.
    from weir_ratelimiter.shared_store import open_shared

    return await open_shared(address, settings, time, registry, limits_of)


def open_memory(
    settings: RateLimiterSettings, time: SteadyTime, registry: CollectorRegistry
) -> OpenedStore:
    """The store of one machine, with its journal replayed.

    Raises:
        StartupError: the journal's folder is in use, not writable, or damaged.
    """
    log = MemoryLog.open(Path(settings.journal), memory_options(settings), time.now_ms())
    store = MemoryStore(log, time.now_ms)
    _log.info("journal_replayed", folder=settings.journal, **store.stats())
    StoreCollector(store, registry)
    return OpenedStore(store, [Repeating("maintenance", store.maintain, settings.fsync_interval_s)])
