"""The worker's server process: start and stop, in order."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine

import grpc

from weir.worker.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server
from weir_core.clock import Clock, SystemClock
from weir_core.errors import WeirError
from weir_core.errors.startup import StartupError
from weir_core.process.address import check_free
from weir_core.process.grpc_port import bind
from weir_core.process.process_servicer import add_process_service
from weir_core.rpc.health import ServerHealth, add_health
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.rpc.leader_epoch import LeaderEpoch
from weir_core.rpc.server import add_reflection, create_server
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.telemetry import Telemetry
from weir_core.tls.identity import service_identity
from weir_worker.abort_cause import DRAINED
from weir_worker.ended_attempts import EndedAttempts
from weir_worker.engine.client import EngineClient
from weir_worker.engine.events import StepOutput
from weir_worker.engine.launchers import EngineLauncher, ProcessLauncher
from weir_worker.metrics import registered_gauge
from weir_worker.registration import SchedulerLink
from weir_worker.remote.launcher import RemoteLauncher
from weir_worker.servicer import SERVICE, WorkerServicer
from weir_worker.settings import WorkerSettings
from weir_worker.worker import Worker, assemble

_ABORT_S = 1.0
_LINK_STOP_S = 1.0
_ENGINE_STOP_S = 1.5
_MOST_GRACE_S = 1.0

_log = get_logger(__name__)


class WorkerApp:
    """One worker process: engine, gRPC server, link to the scheduler.

    Args:
        settings: of the process.
        telemetry: its traces and metrics.
        on_end: called when the worker wants its process to end: why, and whether by a fault.
        launcher: how the engine is started; None: by the settings.
        clock: time.

    Attributes:
        worker_id: unique for this start.
        address: the bound `host:port`, once started.
        worker: the parts, once started.
        link: to the scheduler, if there is one.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        telemetry: Telemetry,
        *,
        on_end: Callable[[str, bool], object],
        launcher: EngineLauncher | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.worker_id = f"{settings.worker_id}-{secrets.token_hex(4)}"
        self.address = ""
        self.worker: Worker | None = None
        self.link: SchedulerLink | None = None
        self._telemetry = telemetry
        self._on_end = on_end
        self._clock = clock or SystemClock()
        self._began_us = self._clock.monotonic_us()
        self._engine = EngineClient(
            launcher or _launcher(settings, self._clock),
            self._clock,
            on_output=self._on_output,
            on_lost=self._on_engine_lost,
            frozen_after_s=settings.engine_timeout_s,
        )
        self._tls = service_identity(settings.tls, telemetry.registry)
        self._server: grpc.aio.Server | None = None
        self._health: ServerHealth | None = None
        self._leader = LeaderEpoch()
        self._schedulers: LeaderChannels | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Starts the engine, serves, and starts to register. Raises StartupError."""
        self._check_secret()
        check_free(self.settings.address, "address")
        # Before anything of gRPC exists in this process: a fork beside its threads is a hazard.
        ready = await self._engine.start(self.settings.engine_start_timeout_s)
        _log.info(
            "engine_started",
            model=ready.model,
            device=ready.device,
            precision=ready.dtype,
            kernels=ready.kernels,
            attention_backend=ready.attention_backend,
            batch_invariant=ready.batch_invariant,
        )
        server = self._server = self._create_server()
        self.address = bind(server, self.settings.address, "address", self._tls)
        worker = self._assemble()
        await self._serve(server, worker)
        if self.settings.scheduler_address:
            self.link = self._open_link(worker)
            self.link.start()

    async def drain(self, grace_s: float) -> None:
        """Takes nothing new, lets what runs end within `grace_s`, then aborts the rest."""
        if self.worker is None:
            return
        attempts, drain = self.worker.attempts, self.worker.drain
        drain.begin("the worker is stopping", final=True)
        try:
            if not await drain.wait(grace_s):
                _log.warning("grace_over", grace_s=grace_s, aborted=len(attempts))
        finally:
            attempts.abort_all(DRAINED)
        await drain.wait(_ABORT_S)

    async def stop(self) -> None:
        """Ends everything within some 5 s; what still runs is aborted. Idempotent."""
        if self.worker is not None:
            await self.drain(0.0)
            self.worker.drain.stop()
            await self._stop_link()
            self.worker.streams.close("the worker is stopping")
        if self._health is not None:
            await self._health.enter_shutdown()
        if self._server is not None:
            await self._server.stop(min(self.settings.grace_s, _MOST_GRACE_S))
        await self._engine.stop(_ENGINE_STOP_S)
        if self._schedulers is not None:
            await self._schedulers.close()

    def _check_secret(self) -> None:
        if self.settings.scheduler_address and self.settings.cluster_token is None:
            raise StartupError(
                "a worker of a scheduler verifies grants with the cluster secret; "
                "set WEIR_CLUSTER_TOKEN"
            )

    def _create_server(self) -> grpc.aio.Server:
        token = self.settings.cluster_token
        interceptors = default_interceptors(
            tracing=self._telemetry.tracing,
            registry=self._telemetry.registry,
            tokens=[] if token is None else [token],
            tls=self._tls,
        )
        return create_server(interceptors=interceptors)

    def _assemble(self) -> Worker:
        self.worker = assemble(
            self.settings,
            self._engine,
            self._telemetry,
            self._clock,
            worker_id=self.worker_id,
            address=self.address,
            start_us=self._clock.monotonic_us() - self._began_us,
            leader=self._leader,
            on_drain_change=self._on_drain_change,
            on_left=lambda why: self._on_end(why, False),
        )
        return self.worker

    async def _serve(self, server: grpc.aio.Server, worker: Worker) -> None:
        servicer = WorkerServicer(
            worker.attempts,
            worker.streams,
            identity=worker.identity,
            load=worker.load,
            kv=worker.kv,
            drain=worker.drain,
            clock=self._clock,
        )
        add_WorkerServiceServicer_to_server(servicer, server)
        add_process_service(server, "worker", self.settings)
        add_reflection(server, [SERVICE])
        health = self._health = add_health(server, [SERVICE])
        await server.start()
        await health.start()

    def _open_link(self, worker: Worker) -> SchedulerLink:
        self._schedulers = LeaderChannels(
            self.settings.scheduler_address,
            name="scheduler",
            knob="scheduler_address",
            token=self.settings.cluster_token,
            tls=self._tls,
        )
        link = SchedulerLink(
            self._schedulers,
            self._leader,
            worker,
            EndedAttempts(self._clock, keep_s=2 * self.settings.silence_s),
            self.settings.stream_options(),
        )
        worker.attempts.observers.add(link)
        registered_gauge(self._telemetry.registry, lambda: link.registered)
        return link

    async def _stop_link(self) -> None:
        if self.link is None:
            return
        try:
            async with asyncio.timeout(_LINK_STOP_S):
                await self.link.stop()
        except TimeoutError:
            _log.warning("scheduler_not_told", limit_s=_LINK_STOP_S)

    def _on_output(self, output: StepOutput) -> None:
        if self.worker is not None:
            self.worker.on_output(output)

    def _on_engine_lost(self, cause: str) -> None:
        """The attempts have ended by now; the process cannot serve any more."""
        _log.error("engine_lost", cause=cause)
        if self.worker is not None:
            self.worker.drain.begin("the engine is lost", final=True)
        self._on_end(f"the engine is lost: {cause}", True)

    def _on_drain_change(self) -> None:
        if self.link is not None:
            self.link.report_soon()
        self._spawn(self._show_health())

    async def _show_health(self) -> None:
        if self._health is None or self.worker is None:
            return
        serving = not self.worker.drain.active
        for service in ("", SERVICE):
            await self._health.set_serving(service, serving)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _launcher(settings: WorkerSettings, clock: Clock) -> EngineLauncher:
    try:
        remote = settings.remote_options()
        if remote is not None:
            return RemoteLauncher(remote, settings.engine_config(), clock)
        return ProcessLauncher(settings.engine_config())
    except WeirError as error:
        raise StartupError(error.message) from None
