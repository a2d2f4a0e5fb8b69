import asyncio
from typing import Any

from grpc import aio

from tests.gateway.support import document_of, published
from weir.directory.v1.directory_service_pb2 import WatchRequest
from weir.directory.v1.directory_service_pb2_grpc import (
    DirectoryServiceStub,
    add_DirectoryServiceServicer_to_server,
)
from weir_core.clock import ManualClock
from weir_gateway.directory.servicer import DirectoryServicer
from weir_gateway.keys import generate_key

KEY = generate_key("dev")
DEADLINE_S = 20.0


async def test_watches_end_with_their_service_and_hold_up_no_stop() -> None:
    publisher = published(document_of(KEY), ManualClock())
    server = aio.server()
    add_DirectoryServiceServicer_to_server(
        DirectoryServicer(publisher, keepalive_s=10 * DEADLINE_S), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            watch: Any = DirectoryServiceStub(channel).Watch(WatchRequest())
            async with asyncio.timeout(DEADLINE_S):
                assert (await watch.read()).HasField("snapshot")
                publisher.close()
                await server.stop(10 * DEADLINE_S)
                while await watch.read() is not aio.EOF:
                    pass
    finally:
        await server.stop(0)
