"""The prefixes of a gateway, wired."""

import grpc
from starlette.routing import Route

from weir.gateway.v1.prefix_service_pb2_grpc import add_PrefixServiceServicer_to_server
from weir_core.clock import Clock
from weir_core.rpc.leader_channels import LeaderChannels
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.model_list import ModelList
from weir_gateway.links.fleet_reader import FleetReader
from weir_gateway.prefixes.desk import PrefixDesk
from weir_gateway.prefixes.routes import PrefixRoutes
from weir_gateway.prefixes.servicer import PrefixServicer
from weir_gateway.prefixes.store import PrefixStore
from weir_gateway.prefixes.warm_keeper import WarmKeeper
from weir_gateway.prefixes.warmer import Warmer
from weir_gateway.state.state import State


class PrefixRoom:
    """Wires the parts of this package; `open` comes before `start`, `serve` and `routes`.

    Args:
        state: where prefixes are kept.
        models: that callers may use.
        clock: time.
        max_bytes: of a request.
    """

    def __init__(self, state: State, models: ModelList, clock: Clock, *, max_bytes: int) -> None:
        self._on = state.on
        self._clock = clock
        self._max_bytes = max_bytes
        self._store = PrefixStore(state)
        self.desk = PrefixDesk(self._store, models, clock)

    def open(self, reception: Reception, schedulers: LeaderChannels) -> None:
        """Tells through which reception prefixes are computed, on whose workers."""
        fleet = FleetReader(schedulers)
        warmer = Warmer(reception, fleet, self._clock)
        self._reception = reception
        self.keeper = WarmKeeper(self._store, warmer, fleet, reception, self._clock)

    def start(self) -> None:
        """Starts what runs in the background."""
        if self._on:
            self.keeper.start()

    async def stop(self) -> None:
        """Ends it; before requests are stopped and the state is closed."""
        await self.keeper.stop()

    def serve(self, server: grpc.aio.Server) -> None:
        """Adds the service."""
        servicer = PrefixServicer(
            self._reception, self.desk, self.keeper, max_bytes=self._max_bytes
        )
        add_PrefixServiceServicer_to_server(servicer, server)

    def routes(self) -> list[Route]:
        """What the HTTP door serves."""
        return PrefixRoutes(
            self._reception, self.desk, self.keeper, clock=self._clock, max_body=self._max_bytes
        ).routes()
