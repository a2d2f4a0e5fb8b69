"""The insight of a gateway, put together."""

from collections.abc import Callable

import grpc
from starlette.routing import Route

from weir.gateway.v1.insight_peer_service_pb2_grpc import (
    add_InsightPeerServiceServicer_to_server,
)
from weir.gateway.v1.insight_service_pb2_grpc import add_InsightServiceServicer_to_server
from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.host_port import split_address
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.telemetry.logs import get_logger
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.admin.viewers import Viewers
from weir_gateway.directory.follower import Directory
from weir_gateway.flow.reception import Reception
from weir_gateway.insight.configuration import Configuration
from weir_gateway.insight.desk import InsightDesk
from weir_gateway.insight.gateway_register import GatewayRegister
from weir_gateway.insight.peer_servicer import InsightPeerServicer
from weir_gateway.insight.peers import Peers
from weir_gateway.insight.request_book import RequestBook
from weir_gateway.insight.request_route import RequestRoute
from weir_gateway.insight.servicer import InsightServicer
from weir_gateway.insight.sources import Open, Sources
from weir_gateway.links.scheduler_reader import SchedulerReader
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import State

_log = get_logger(__name__)

_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound


class InsightRoom:
    """Wires the parts of this package.

    Args:
        settings: of the process.
        state: shared by all gateways, which find each other by it.
        directory: followed.
        limiter: channel to the ratelimiter.
        open_schedulers: channels of this room's own: whom it asks is no business of the queue.
        open_channel: to a service at `host:port`, by its name.
        clock: time.
        gateway_id: of the process.

    Attributes:
        book: gets the trails of requests.
        desk: see there.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        state: State,
        *,
        directory: Directory,
        limiter: grpc.aio.Channel,
        open_schedulers: Callable[[], LeaderChannels],
        open_channel: Open,
        clock: Clock,
        gateway_id: str,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._scheduler = SchedulerReader(open_schedulers())
        self._register = GatewayRegister(state, clock, gateway_id)
        self.book = RequestBook(
            clock, most=settings.explain_requests, keep_s=settings.explain_keep_s
        )
        sources = Sources(limiter, self._scheduler, open_channel)
        peers = Peers(self._register, open_channel)
        self._configuration = Configuration(
            settings,
            peers,
            sources,
            open_channel,
            lambda: 0 if directory.index is None else directory.index.version,
        )
        self.desk = InsightDesk(
            self.book,
            sources,
            peers,
            self._configuration,
            gateway_id=gateway_id,
            keep_s=settings.explain_keep_s,
        )

    def serve(self, server: grpc.aio.Server, reception: Reception) -> None:
        """Adds the services."""
        secret = self._settings.admin_secret
        admin = AdminGuard(secret) if secret is not None else None
        servicer = InsightServicer(self.desk, Viewers(reception, admin), admin)
        add_InsightServiceServicer_to_server(servicer, server)
        add_InsightPeerServiceServicer_to_server(InsightPeerServicer(self.desk), server)

    def routes(self, reception: Reception) -> list[Route]:
        """What the HTTP door serves."""
        return RequestRoute(reception, self.desk, self._clock).routes()

    def start(self, public: str, internal: str) -> None:
        """Tells the other gateways where this one is.

        Args:
            public: bound `host:port` for clients.
            internal: that for the other services; empty: none.
        """
        self._configuration.own_address = internal or public
        self._register.start(self._peer_address(public, internal))

    async def stop(self) -> None:
        """Ends it; before the state is closed."""
        try:
            await self._register.stop()
        except WeirError as error:
            _log.warning("gateway_not_withdrawn", reason=error.reason)
        await self._scheduler.close()

    def _peer_address(self, public: str, internal: str) -> str:
        """Where the others reach this one; empty, and a warning, where they cannot."""
        if self._settings.peer_address:
            return self._settings.peer_address
        encrypted = self._settings.edge_tls.certificate or self._settings.tls.certificate
        address = internal or ("" if encrypted else public)
        if address and split_address(address, "grpc_address")[0] not in _EVERYWHERE:
            return address
        _log.info("peers_off", mend="set peer_address, so that other gateways explain its requests")
        return ""
