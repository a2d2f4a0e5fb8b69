"""The scheduler's process: its parts, put together."""

from weir.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from weir_core.clock import Clock, SystemClock
from weir_core.directory import DirectoryIndex
from weir_core.directory.watcher import DirectoryWatcher
from weir_core.errors.startup import StartupError
from weir_core.process import ServiceRuntime
from weir_core.rpc.channel import open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server.directory_rules import DirectoryRules
from weir_scheduler.server.pump import Pump
from weir_scheduler.server.queue_metrics import QueueMetrics, SchedulerCollector
from weir_scheduler.server.queue_spans import QueueSpans
from weir_scheduler.server.servicer import SERVICE, SchedulerServicer
from weir_scheduler.server.streams import Streams
from weir_scheduler.settings import SchedulerSettings


class SchedulerApp:
    """One scheduler process.

    Args:
        runtime: of the process; starts and stops what is registered with it.
        settings: of the process.
        clock: time.
    """

    def __init__(
        self, runtime: ServiceRuntime, settings: SchedulerSettings, clock: Clock | None = None
    ) -> None:
        if settings.cluster_token is None:
            raise StartupError(
                "the scheduler signs grants with the cluster secret; set WEIR_CLUSTER_TOKEN"
            )
        self._runtime = runtime
        self._settings = settings
        self._clock = clock or SystemClock()
        self._rules = DirectoryRules()
        secret = settings.cluster_token.get_secret_value().encode()
        self._streams = Streams(self._clock, secret)
        telemetry = runtime.telemetry
        self._scheduler = Scheduler(
            clock=self._clock,
            rules=self._rules,
            outbox=self._streams,
            bounds=settings.bounds(),
            observers=[
                QueueMetrics(telemetry.registry, self._clock),
                QueueSpans(telemetry.tracing),
            ],
        )
        SchedulerCollector(self._scheduler, self._clock, telemetry.registry)
        self._pump = Pump(self._scheduler, self._clock)

    def register(self) -> None:
        """Registers the server, the watch of the directory and the drain with the runtime."""
        runtime, settings = self._runtime, self._settings
        runtime.on_close(self._close)
        self._watch_directory()
        server = create_server(
            interceptors=default_interceptors(
                tracing=runtime.telemetry.tracing,
                registry=runtime.telemetry.registry,
                tokens=[settings.cluster_token] if settings.cluster_token else [],
            )
        )
        servicer = SchedulerServicer(
            self._scheduler,
            self._streams,
            self._pump,
            clock=self._clock,
            bounds=settings.bounds(),
            options=settings.stream_options(),
        )
        add_SchedulerServiceServicer_to_server(servicer, server)
        runtime.add_server(server, address=settings.address, knob="address", services=[SERVICE])
        runtime.on_drain(self._drain)

    def _watch_directory(self) -> None:
        settings = self._settings
        channel = open_channel(
            settings.directory_address, name="directory", token=settings.cluster_token
        )
        self._runtime.on_close(channel.close)
        watcher = DirectoryWatcher(channel, "scheduler")
        watcher.on_change(self._use)
        watcher.start()
        self._runtime.on_close(watcher.stop)

    def _use(self, index: DirectoryIndex) -> None:
        self._rules.use(index)
        self._scheduler.rules_changed()
        self._pump.poke()

    async def _drain(self) -> None:
        """Another scheduler takes over: gateways enqueue again what waits here.

        What runs on workers goes on; nothing of it passes through here.
        """
        self._scheduler.close()
        self._streams.close("the scheduler is stopping")

    async def _close(self) -> None:
        self._pump.stop()
