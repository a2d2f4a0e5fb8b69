"""A real server and channel for the tests of `weir_core.rpc`; messages are plain bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.tracing import Tracing

SERVICE = "test.v1.EchoService"


@dataclass
class Echo:
    """A running server, its registry, and a channel to it."""

    channel: ServiceChannel
    address: str
    registry: CollectorRegistry
    server: grpc.aio.Server

    def unary(self, name: str) -> Any:
        return self.channel.unary_unary(f"/{SERVICE}/{name}")

    def server_stream(self, name: str) -> Any:
        return self.channel.unary_stream(f"/{SERVICE}/{name}")

    def client_stream(self, name: str) -> Any:
        return self.channel.stream_unary(f"/{SERVICE}/{name}")

    def bidi(self, name: str) -> Any:
        return self.channel.stream_stream(f"/{SERVICE}/{name}")


def handlers(**by_name: tuple[str, Any]) -> grpc.GenericRpcHandler:
    """`Name=("unary", function)`; kinds: unary, server_stream, client_stream, bidi."""
    make = {
        "unary": grpc.unary_unary_rpc_method_handler,
        "server_stream": grpc.unary_stream_rpc_method_handler,
        "client_stream": grpc.stream_unary_rpc_method_handler,
        "bidi": grpc.stream_stream_rpc_method_handler,
    }
    return grpc.method_handlers_generic_handler(
        SERVICE, {name: make[kind](function) for name, (kind, function) in by_name.items()}
    )


@asynccontextmanager
async def echo_server(
    *,
    tracing: Tracing | None = None,
    tokens: Sequence[SecretStr] = (),
    token: SecretStr | None = None,
    default_deadline_s: float | None = 30.0,
    port: int = 0,
    prepare: Callable[[grpc.aio.Server], object] = lambda _: None,
    **by_name: Any,
) -> AsyncIterator[Echo]:
    """Runs a server with the default interceptors and handlers as in `handlers`."""
    registry = CollectorRegistry()
    server = create_server(
        interceptors=default_interceptors(
            tracing=tracing or Tracing("test"),
            registry=registry,
            tokens=tokens,
            default_deadline_s=default_deadline_s,
        )
    )
    server.add_generic_rpc_handlers((handlers(**by_name),))
    prepare(server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    address = f"127.0.0.1:{bound}"
    channel = open_channel(address, name="echo", token=token)
    try:
        yield Echo(channel, address, registry, server)
    finally:
        await channel.close()
        await server.stop(0)


async def eventually(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Returns once the condition holds; fails after `timeout_s`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while not condition():
        assert loop.time() < end, f"did not come true within {timeout_s} s"
        await asyncio.sleep(0.01)
