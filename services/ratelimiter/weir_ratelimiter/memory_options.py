"""Options of a store in memory, as the settings have them."""

from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.store.memory_log import MemoryOptions


def memory_options(settings: RateLimiterSettings) -> MemoryOptions:
    """What they say of journal and memory."""
    return MemoryOptions(
        fsync=settings.fsync,
        horizon_ms=settings.remember_s * 1_000,
        most_ended=settings.remember_most,
        compact_bytes=settings.compact_bytes,
        most_events=settings.ledger_most_events,
    )
