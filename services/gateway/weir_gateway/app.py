"""The gateway process: edge and control role, gRPC and HTTP in one event loop."""

from typing import Any

from pydantic import SecretStr
from starlette.applications import Starlette

from weir.gateway.v1.admin_service_pb2_grpc import add_AdminServiceServicer_to_server
from weir_core.clock import Clock, SystemClock
from weir_core.directory.watcher import DirectoryWatcher
from weir_core.errors.startup import StartupError
from weir_core.process.http import HttpServer
from weir_core.process.process_servicer import add_process_service
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.rpc.health import add_health
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import add_reflection, create_server
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.metrics_app import metrics_routes
from weir_core.telemetry.telemetry import Telemetry
from weir_gateway.admin.off import NO_CONTROL, admin_off
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.console.console import Console
from weir_gateway.control import DIRECTORY_SERVICE, Control
from weir_gateway.directory.follower import Directory
from weir_gateway.directory.metrics import DirectoryMetrics
from weir_gateway.doors import Doors
from weir_gateway.edge import ADMIN_SERVICE, PUBLIC_SERVICES, Edge
from weir_gateway.flow.refusals import RefusalsInterceptor
from weir_gateway.settings import GatewaySettings

_log = get_logger(__name__)

_TEXTS_S = 60.0
_HTTP_GRACE_S = 2.0
_LONGEST_GRACE_S = 1.0


class GatewayApp:
    """One gateway process.

    Args:
        settings: of the process.
        telemetry: its traces and metrics.
        clock: time.

    Attributes:
        grpc_address, http_address: the bound `host:port`, once started.
        internal_address: likewise that for the other services; empty without one.
        edge, control: the parts of the roles; None for a role that is not played.
        console: pages of the control role; None where there are none.
    """

    def __init__(
        self, settings: GatewaySettings, telemetry: Telemetry, *, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        token = _token(settings)
        self._doors = Doors(settings, telemetry.registry)
        tls = self._doors.services
        self.settings = settings
        self.grpc_address = ""
        self.internal_address = ""
        self.http_address = ""
        self._watcher_channel: ServiceChannel | None = None
        self._watcher: DirectoryWatcher | None = None
        self._directory_metrics = DirectoryMetrics(telemetry.registry)
        self.control: Control | None = None
        uses = KeyUses()
        if settings.role != "edge":
            self.control = Control(settings, clock, self._directory_metrics, token, uses)
        self.edge: Edge | None = None
        if settings.role != "control":
            self.edge = Edge(
                settings,
                directory=self._directory(token),
                telemetry=telemetry,
                clock=clock,
                token=token,
                tls=tls,
                uses=uses,
            )
        self.console: Console | None = None
        if self.control is not None and settings.console.enabled:
            self.console = Console(
                settings, self.control, self.edge, clock=clock, token=token, tls=tls, uses=uses
            )
        self._server = create_server(
            interceptors=[
                *default_interceptors(
                    tracing=telemetry.tracing,
                    registry=telemetry.registry,
                    tokens=[token],
                    open_services=PUBLIC_SERVICES,
                    tls=tls,
                ),
                RefusalsInterceptor(clock),
            ],
            # Larger than what is taken, so that the refusal is ours and names the bound.
            max_message_bytes=max(16_000_000, 2 * settings.max_body_bytes),
        )
        self._services = self._add_services()
        self._health = add_health(self._server, self._services)
        self._http = HttpServer(
            self._http_app(telemetry),
            address=settings.http_address,
            knob="http_address",
            graceful_s=_HTTP_GRACE_S,
            proxy_headers=False,
            tls=self._doors.edge,
        )

    async def start(self) -> None:
        """Binds, loads the directory and the tokenizers, serves. Raises StartupError."""
        self.grpc_address, self.internal_address = self._doors.bind(self._server)
        if self.control is not None:
            await self.control.start()
        if self._watcher is not None:
            self._watcher.start()
        if self.edge is not None:
            self.edge.grpc_address = self.grpc_address
            await self.edge.start()
            self.edge.insight.start(self.grpc_address, self.internal_address)
        await self._server.start()
        if self.edge is not None and self.control is not None:
            # The other services wait for the directory meanwhile, and get it.
            await self.edge.texts.wait_settled(_TEXTS_S)
        await self._http.start()
        self.http_address = self._http.address
        if self.console is not None and self._doors.edge is None:
            self.console.warn_of_plain_text(self.http_address)
        await self._health.start()

    async def drain(self) -> None:
        """Takes no new requests and returns when the last has ended."""
        await self._health.enter_shutdown()
        if self.edge is not None:
            await self.edge.desk.drain()

    async def stop(self) -> None:
        """Stops what still runs, settles it, and releases everything."""
        await self._health.enter_shutdown()
        if self.edge is not None:
            await self.edge.desk.stop()
        if self.console is not None:
            await self.console.stop()
        await self._http.stop()
        if self.control is not None:
            self.control.end_watches()
        await self._server.stop(min(self.settings.grace_s, _LONGEST_GRACE_S))
        if self.edge is not None:
            await self.edge.stop()
        if self._watcher is not None:
            await self._watcher.stop()
        if self._watcher_channel is not None:
            await self._watcher_channel.close()
        if self.control is not None:
            await self.control.stop()

    def reload(self) -> None:
        """Reads the directory file again, or looks at its database."""
        if self.control is not None:
            self.control.source.reload()

    def _directory(self, token: SecretStr) -> Directory:
        if self.control is not None:
            return self.control.publisher
        self._watcher_channel = open_channel(
            self.settings.directory_address, name="gateway", token=token, tls=self._doors.services
        )
        self._watcher = DirectoryWatcher(self._watcher_channel, "gateway")
        self._watcher.on_change(self._directory_metrics.changed)
        return self._watcher

    def _add_services(self) -> list[str]:
        services: list[str] = []
        if self.edge is not None:
            self.edge.serve(self._server)
            services.extend(PUBLIC_SERVICES)
        else:
            services.append(ADMIN_SERVICE)
        admin = self.control.admin if self.control is not None else admin_off(NO_CONTROL)
        add_AdminServiceServicer_to_server(admin, self._server)
        if self.control is not None:
            self.control.serve(self._server)
            services.append(DIRECTORY_SERVICE)
        add_process_service(self._server, "gateway", self.settings)
        add_reflection(self._server, services)
        return services

    def _http_app(self, telemetry: Telemetry) -> Any:
        if self.edge is not None:
            app: Any = self.edge.http_app()
        else:
            app = Starlette(routes=metrics_routes(telemetry.registry))
        return app if self.console is None else self.console.before(app)


def _token(settings: GatewaySettings) -> SecretStr:
    if settings.cluster_token is None:
        raise StartupError(
            "the services prove themselves to each other with the cluster secret; "
            "set WEIR_CLUSTER_TOKEN"
        )
    return settings.cluster_token
