"""A directory that serves what a test publishes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2 import Keepalive, WatchRequest, WatchResponse
from weir.directory.v1.directory_service_pb2_grpc import (
    DirectoryServiceServicer,
    add_DirectoryServiceServicer_to_server,
)


class Directory(DirectoryServiceServicer):
    """Sends every published snapshot to every watcher."""

    def __init__(self) -> None:
        self._current: Snapshot | None = None
        self._changed = asyncio.Condition()

    async def publish(self, snapshot: Snapshot) -> None:
        async with self._changed:
            self._current = snapshot
            self._changed.notify_all()

    async def Watch(  # noqa: N802
        self, request: WatchRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[WatchResponse]:
        sent: Snapshot | None = None
        while True:
            async with self._changed:
                while self._current is sent:
                    await self._changed.wait()
                sent = self._current
            if sent is None:
                yield WatchResponse(keepalive=Keepalive())
            else:
                yield WatchResponse(snapshot=sent)


@asynccontextmanager
async def directory_server() -> AsyncIterator[tuple[Directory, str]]:
    """A directory and the address that it is served on."""
    served = Directory()
    server = grpc.aio.server()
    add_DirectoryServiceServicer_to_server(served, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield served, f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
