"""The scheduler's process: its parts, put together."""

import asyncio

import grpc

from weir.keda.v1.external_scaler_pb2_grpc import add_ExternalScalerServicer_to_server
from weir.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from weir_core.clock import Clock, SystemClock
from weir_core.directory import DirectoryIndex
from weir_core.directory.watcher import DirectoryWatcher
from weir_core.errors.startup import StartupError
from weir_core.process.grpc_port import bind
from weir_core.process.process_servicer import add_process_service
from weir_core.rpc.channel import open_channel
from weir_core.rpc.health import ServerHealth, add_health
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import add_reflection, create_server
from weir_core.telemetry.busiest import Busiest
from weir_core.telemetry.telemetry import Telemetry
from weir_core.tls.identity import service_identity
from weir_scheduler.leadership.factory import leadership_of
from weir_scheduler.leadership.leadership import Leadership, OnlyScheduler
from weir_scheduler.leadership.term import Term
from weir_scheduler.scaling.advisor import Advisor
from weir_scheduler.scaling.scaling_key import ScalingKey
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server.directory_rules import DirectoryRules
from weir_scheduler.server.keda.servicer import SERVICE as KEDA_SERVICE
from weir_scheduler.server.keda.servicer import KedaServicer
from weir_scheduler.server.leader_metrics import watch_leadership
from weir_scheduler.server.pool_metrics import PoolCollector
from weir_scheduler.server.pump import Pump, log_fault
from weir_scheduler.server.queue_metrics import QueueMetrics, SchedulerCollector
from weir_scheduler.server.queue_spans import QueueSpans
from weir_scheduler.server.roll_keeper import RollKeeper
from weir_scheduler.server.scaling_loop import ScalingLoop
from weir_scheduler.server.scaling_metrics import ScalingCollector
from weir_scheduler.server.servicer import SERVICE, SchedulerServicer
from weir_scheduler.server.streams import Streams
from weir_scheduler.settings import SchedulerSettings

_LONGEST_GRACE_S = 1.0
_LAST_WORDS_S = 0.5
_DIRECTORY_S = 5.0
_SECOND_US = 1_000_000


class SchedulerApp:
    """One scheduler process; build it inside the event loop.

    Args:
        settings: of the process.
        telemetry: its traces and metrics.
        clock: time.

    Attributes:
        address: the bound `host:port`, once started.
        scheduler: the domain; to be read by its own event loop only.
    """

    def __init__(
        self, settings: SchedulerSettings, telemetry: Telemetry, *, clock: Clock | None = None
    ) -> None:
        if settings.cluster_token is None:
            raise StartupError(
                "the scheduler signs grants with the cluster secret; set WEIR_CLUSTER_TOKEN"
            )
        self.address = ""
        self._settings = settings
        self._telemetry = telemetry
        self._token = settings.cluster_token
        self._tls = service_identity(settings.tls, telemetry.registry)
        self._clock = clock or SystemClock()
        self._rules = DirectoryRules()
        self._streams = Streams(self._token.get_secret_value().encode())
        self._tenants = Busiest()
        self.scheduler = self._build_scheduler()
        SchedulerCollector(self.scheduler, self._clock, telemetry.registry, self._tenants)
        PoolCollector(self.scheduler, telemetry.registry, self._tenants)
        self._leadership: Leadership = OnlyScheduler()
        self._pump = Pump(self.scheduler, self._clock, lambda: self._leadership.active())
        watch_leadership(telemetry.registry, lambda: self._leadership)
        self._scaling = self._build_scaling()
        self._channel = open_channel(
            settings.directory_address, name="gateway", token=self._token, tls=self._tls
        )
        self._watcher = DirectoryWatcher(self._channel, "scheduler")
        self._server = self._build_server()
        self._health: ServerHealth | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._standing = False
        self._roll = self._build_roll()

    async def start(self) -> None:
        """Binds, watches the directory, serves. Raises StartupError."""
        self.address = bind(self._server, self._settings.address, "address", self._tls)
        self._leadership = self._choose_leadership()
        self._roll = self._build_roll()
        health = self._health = add_health(self._server, [SERVICE])
        add_process_service(self._server, "scheduler", self._settings)
        add_reflection(self._server, [SERVICE, *([KEDA_SERVICE] if self._settings.keda else [])])
        self._watcher.on_change(self._use)
        self._watcher.start()
        await self._server.start()
        # Until the lease is taken: alive, and not to be sent anything.
        await health.set_serving(SERVICE, self._leadership.active())
        await health.start()
        self._standing = True
        self._stand()
        self._scaling.start()

    @property
    def ready(self) -> bool:
        """Whether the directory has been received: until then every request is refused."""
        return self._watcher.index is not None

    async def drain(self) -> None:
        """Takes nothing new and ends every stream: gateways enqueue again with the next one.

        What runs on workers goes on; nothing of it passes through here.
        """
        if self._health is not None:
            await self._health.enter_shutdown()
        self.scheduler.close()
        self._streams.close("the scheduler is stopping")
        await self._streams.wait_closed(_LAST_WORDS_S)
        await self._leadership.stop()

    async def stop(self) -> None:
        """Releases everything. Idempotent."""
        await self.drain()
        await self._server.stop(min(self._settings.grace_s, _LONGEST_GRACE_S))
        self._pump.stop()
        await self._scaling.stop()
        await self._watcher.stop()
        await self._channel.close()

    def _choose_leadership(self) -> Leadership:
        settings = self._settings
        return leadership_of(
            settings.leader_store.get_secret_value(),
            settings.leader_key,
            settings.lease_times(),
            settings.advertise_address or self.address,
        )

    def _build_roll(self) -> RollKeeper:
        return RollKeeper(
            self._leadership,
            self.scheduler,
            self._streams,
            self._pump,
            interval_s=self._settings.leader_ttl_s / 8,
        )

    def _stand(self) -> None:
        """Competes for the lease once a directory is there: before, it could only refuse."""
        only = not self._settings.leader_store.get_secret_value()
        if self._standing and (only or self.ready):
            self._standing = False
            self._leadership.start(self._begin_term, self._end_term)

    def _begin_term(self) -> None:
        leadership = self._leadership
        lease_us = round(leadership.lease_s * _SECOND_US)
        self._streams.term = Term(leadership.epoch, lease_us)
        if lease_us:
            self.scheduler.take_over(round(self._settings.takeover_s * _SECOND_US))
            self._roll.begin()
        self._show_health(active=True)
        self._pump.poke()

    def _end_term(self) -> None:
        """Says nothing more, and forgets: whoever is active now is told everything anew."""
        self._roll.end()
        self._streams.cut("another scheduler is active, or may be")
        self.scheduler.vacate()
        self._show_health(active=False)

    def _show_health(self, *, active: bool) -> None:
        if self._health is not None:
            task = asyncio.create_task(self._health.set_serving(SERVICE, active))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _build_scheduler(self) -> Scheduler:
        telemetry = self._telemetry
        return Scheduler(
            clock=self._clock,
            rules=self._rules,
            outbox=self._streams,
            bounds=self._settings.bounds(),
            observers=[
                QueueMetrics(telemetry.registry, self._clock, self._tenants),
                QueueSpans(telemetry.tracing),
            ],
            on_fault=log_fault,
        )

    def _build_scaling(self) -> ScalingLoop:
        defaults = self._settings.scaling.rules()

        def rules_of(key: ScalingKey) -> ScalingRules:
            first = self._rules.pool(key.model)
            pools = {pool.name: pool for pool in (first, *first.further)}
            return pools.get(key.pool, first).scaling.over(defaults)

        loop = ScalingLoop(
            lambda: self.scheduler.scaling_signals(self._rules.models()),
            Advisor(rules_of),
            self._clock,
            self._settings.scaling.interval_s,
            active=lambda: self._leadership.active(),
        )
        ScalingCollector(lambda: loop.last, self._telemetry.registry)
        return loop

    def _build_server(self) -> grpc.aio.Server:
        server = create_server(
            interceptors=default_interceptors(
                tracing=self._telemetry.tracing,
                registry=self._telemetry.registry,
                tokens=[self._token],
                open_services=[KEDA_SERVICE] if self._settings.keda else [],
                tls=self._tls,
            )
        )
        servicer = SchedulerServicer(
            self.scheduler,
            self._streams,
            self._pump,
            clock=self._clock,
            bounds=self._settings.bounds(),
            options=self._settings.stream_options(),
            active=lambda: self._leadership.active(),
            refusal=lambda: self._leadership.refusal(),
            scaling=self._scaling,
            directory_known=lambda: self._watcher.wait_ready(_DIRECTORY_S),
        )
        add_SchedulerServiceServicer_to_server(servicer, server)
        if self._settings.keda:
            keda = KedaServicer(self._scaling, self._settings.keda_secret, servicer.check_leading)
            add_ExternalScalerServicer_to_server(keda, server)
        return server

    def _use(self, index: DirectoryIndex) -> None:
        self._rules.use(index)
        self.scheduler.rules_changed()
        self._pump.poke()
        self._stand()
