"""`grpc.health.v1` of one server."""

import asyncio
from collections.abc import Coroutine, Sequence

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

_TIMEOUT_S = 1.0


class ServerHealth:
    """The health of "" (the server as a whole) and of each service by its full name."""

    def __init__(self, services: Sequence[str]) -> None:
        self._unset = set(services)
        self._servicer = health.aio.HealthServicer()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the servicer; before the server starts."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Reports every service as SERVING that was not set before."""
        for service in sorted(self._unset):
            await self.set_serving(service, True)

    async def set_serving(self, service: str, serving: bool) -> None:
        """Sets one status; "" for the server as a whole."""
        self._unset.discard(service)
        status = health_pb2.HealthCheckResponse
        value = status.SERVING if serving else status.NOT_SERVING
        await _bounded(self._servicer.set(service, value))

    async def enter_shutdown(self) -> None:
        """Reports everything as NOT_SERVING, for good."""
        await _bounded(self._servicer.enter_graceful_shutdown())


async def _bounded(change: Coroutine[None, None, None]) -> None:
    # A watcher that does not read makes the servicer hold its lock while writing to it.
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await change
    except TimeoutError:
        return


def add_health(server: grpc.aio.Server, services: Sequence[str]) -> ServerHealth:
    """Adds the health service; call `start` on the result once the server has started."""
    server_health = ServerHealth(services)
    server_health.add_to(server)
    return server_health
