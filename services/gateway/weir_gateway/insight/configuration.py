"""The settings in force of every service."""

import asyncio
from collections.abc import Callable, Iterable

import grpc

from weir.gateway.v1.insight_service_pb2 import GetConfigurationResponse, ServiceConfiguration
from weir.process.v1.process_service_pb2 import GetSettingsRequest
from weir.process.v1.process_service_pb2_grpc import ProcessServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.process.settings_report import settings_report
from weir_gateway.insight.peers import Peers
from weir_gateway.insight.sources import Open, Sources
from weir_gateway.links.limiter_channel import target
from weir_gateway.settings import GatewaySettings

_CALL_S = 2.0
_MOST_WORKERS, _AT_ONCE = 256, 16


class Configuration:
    """Asks every service that this gateway knows of.

    Args:
        settings: of this process.
        peers, sources: who else there is.
        open_channel: to any of them.
        version: of the directory.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        peers: Peers,
        sources: Sources,
        open_channel: Open,
        version: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._peers = peers
        self._sources = sources
        self._open = open_channel
        self._version = version
        self.own_address = ""
        """Of this process, once it is bound."""

    async def collect(self) -> GetConfigurationResponse:
        """The settings of all; of those that could not be asked, why."""
        own = ServiceConfiguration(
            service="gateway",
            address=self.own_address,
            settings=settings_report("gateway", self._settings),
        )
        turn = asyncio.Semaphore(_AT_ONCE)
        asked = [
            self._ask(turn, service, address) for service, address in [*await self._addresses()]
        ]
        services = [own, *await asyncio.gather(*asked)]
        return GetConfigurationResponse(services=services, directory_version=self._version())

    async def _addresses(self) -> Iterable[tuple[str, str]]:
        found = [("gateway", address) for address in self._peers.addresses]
        found += [("ratelimiter", address) for address in _each(self._settings.ratelimiter_address)]
        found += [("scheduler", address) for address in _each(self._settings.scheduler_address)]
        try:
            workers = await self._sources.workers()
        except WeirError:
            # The line of the scheduler says so.
            return found
        there = [view.registration.address for view in workers if view.state != "lost"]
        return [*found, *(("worker", address) for address in there[:_MOST_WORKERS])]

    async def _ask(
        self, turn: asyncio.Semaphore, service: str, address: str
    ) -> ServiceConfiguration:
        told = ServiceConfiguration(service=service, address=address)
        async with turn, self._open(target(address), service) as channel:
            try:
                answer = await ProcessServiceStub(channel).GetSettings(
                    GetSettingsRequest(), timeout=_CALL_S
                )
                told.settings.CopyFrom(answer.settings)
            except grpc.aio.AioRpcError as error:
                error_ = from_rpc_error(error, unavailable_as=Reason.INTERNAL, peer=service)
                told.error = error_.message
        return told


def _each(addresses: str) -> list[str]:
    """Each of a list; a name that stands for several is asked once."""
    return [part.strip() for part in addresses.split(",")]
