"""A ledger over real gRPC."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from tests.ratelimiter.ledger.support import Book
from weir.ratelimiter.v1.ledger_service_pb2_grpc import (
    LedgerServiceStub,
    add_LedgerServiceServicer_to_server,
)
from weir_core.rpc.channel import open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter.ledger_servicer import LedgerServicer

TOKEN = SecretStr("cluster")


@asynccontextmanager
async def served_at(book: Book, tenants: Collection[str] = ()) -> AsyncIterator[str]:
    """Where it is served; the directory has these tenants."""
    interceptors = default_interceptors(
        tracing=Tracing("test"), registry=CollectorRegistry(), tokens=[TOKEN]
    )
    server = create_server(interceptors=interceptors)
    add_LedgerServiceServicer_to_server(
        LedgerServicer(book.ledger, 1_000, tenants.__contains__), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def served(book: Book, tenants: Collection[str] = ()) -> AsyncIterator[Any]:
    """A stub."""
    async with (
        served_at(book, tenants) as address,
        open_channel(address, name="ratelimiter", token=TOKEN) as channel,
    ):
        yield LedgerServiceStub(channel)
