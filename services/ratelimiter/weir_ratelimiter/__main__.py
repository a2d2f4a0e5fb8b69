"""Entry point of the ratelimiter process: wires, and nothing else."""

import sys
from pathlib import Path

from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import (
    add_RateLimiterServiceServicer_to_server,
)
from weir_core.clock import SystemClock
from weir_core.directory.watcher import DirectoryWatcher
from weir_core.errors.startup import StartupError
from weir_core.process import ServiceRuntime, run_service
from weir_core.rpc.channel import open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.directory.follower import DirectoryFollower
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.periodic import Periodic
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.servicer import SERVICE, RateLimiterServicer
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.steady_time import SteadyTime
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions
from weir_ratelimiter.store_metrics import StoreCollector

_log = get_logger(__name__)


async def wire(runtime: ServiceRuntime, settings: RateLimiterSettings) -> None:
    """Build the parts and register them."""
    if settings.cluster_token is None or not settings.cluster_token.get_secret_value():
        raise StartupError("the ratelimiter signs with the cluster secret; set WEIR_CLUSTER_TOKEN")
    clock = SystemClock()
    store = _open_store(settings, SteadyTime(clock))
    runtime.on_close(store.close)
    registry = runtime.telemetry.registry
    StoreCollector(store, registry)
    limiter = Limiter(
        store,
        RecordSigner(settings.cluster_token.get_secret_value().encode()),
        now_ms=lambda: clock.now_us() // 1_000,
        default_ttl_ms=round(settings.ttl_s * 1_000),
        metrics=LimiterMetrics(registry),
    )
    _start_tasks(runtime, settings, limiter, store)
    server = create_server(
        interceptors=default_interceptors(
            tracing=runtime.telemetry.tracing, registry=registry, tokens=[settings.cluster_token]
        )
    )
    servicer = RateLimiterServicer(limiter, lambda: clock.now_us() // 1_000)
    add_RateLimiterServiceServicer_to_server(servicer, server)
    runtime.add_server(server, address=settings.address, knob="address", services=[SERVICE])


def _open_store(settings: RateLimiterSettings, time: SteadyTime) -> MemoryStore:
    options = MemoryOptions(
        fsync=settings.fsync,
        horizon_ms=settings.remember_s * 1_000,
        most_ended=settings.remember_most,
        compact_bytes=settings.compact_bytes,
    )
    log = MemoryLog.open(Path(settings.journal), options, time.now_ms())
    store = MemoryStore(log, time.now_ms)
    _log.info("journal_replayed", folder=settings.journal, **store.stats())
    return store


def _start_tasks(
    runtime: ServiceRuntime, settings: RateLimiterSettings, limiter: Limiter, store: MemoryStore
) -> None:
    channel = open_channel(
        settings.directory_address, name="directory", token=settings.cluster_token
    )
    runtime.on_close(channel.close)
    watcher = DirectoryWatcher(channel, "ratelimiter")
    follower = DirectoryFollower(limiter.use)
    watcher.on_change(follower.changed)
    maintenance = Periodic("maintenance", settings.fsync_interval_s, store.maintain)
    sweep = Periodic("sweep", settings.sweep_interval_s, limiter.sweep)
    for task in (follower, watcher, maintenance, sweep):
        task.start()
        runtime.on_close(task.stop)


if __name__ == "__main__":
    sys.exit(run_service("ratelimiter", RateLimiterSettings, wire))
