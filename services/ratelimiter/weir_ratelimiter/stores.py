"""Opens the store that the settings name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.periodic import Periodic
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.steady_time import SteadyTime
from weir_ratelimiter.store.base import Store
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions
from weir_ratelimiter.store_metrics import StoreCollector

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store, and the periodic work that it needs."""

    store: Store
    tasks: Sequence[Periodic]


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
    return OpenedStore(store, [Periodic("maintenance", settings.fsync_interval_s, store.maintain)])


def memory_options(settings: RateLimiterSettings) -> MemoryOptions:
    """What the settings say of memory and journal."""
    return MemoryOptions(
        fsync=settings.fsync,
        horizon_ms=settings.remember_s * 1_000,
        most_ended=settings.remember_most,
        compact_bytes=settings.compact_bytes,
        most_events=settings.ledger_most_events,
    )
