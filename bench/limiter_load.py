"""One client process of `make bench-limiter`: closed loops of decisions, or of echoes.

A decision is one Reserve or one Settle that was answered. Every client reserves and settles,
one after the other. The last line on stdout is one JSON object.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Protocol

import grpc
import uvloop
from pydantic import SecretStr

from bench.echo_server import ECHO
from weir.common.v1.lifecycle_pb2 import OUTCOME_OK
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT, Usage
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ReserveRequest,
    ReserveResponse,
    SettleRequest,
)
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.rpc.channel import open_channel
from weir_core.rpc.options import channel_options
from weir_core.telemetry.logs import setup_logs
from weir_gateway.links.account_stream import AccountStream

SUBJECT = Subject(tenant_id="bench", user_id="bench", api_key_id="bench", model="bench")
TOKEN_VARIABLE = "WEIR_CLUSTER_TOKEN"

_TIMEOUT_S = 30.0
_WARM_UP_S = 0.5


class Peer(Protocol):
    """What is measured: two calls for each request."""

    async def first(self, request: ReserveRequest) -> bytes:
        """Reserve, or its echo; returns the record."""

    async def second(self, request: SettleRequest) -> None:
        """Settle, or another echo."""


def reserve_request(request_id: str) -> ReserveRequest:
    """A request of 100 + 28 tokens under all limits."""
    return ReserveRequest(
        request_id=request_id, subject=SUBJECT, prompt_tokens=100, max_new_tokens=28
    )


def settle_request(record: bytes) -> SettleRequest:
    """The end of such a request."""
    return SettleRequest(
        record=record,
        usage=Usage(prompt_tokens=100, completion_tokens=20, total_tokens=120),
        usage_quality=USAGE_QUALITY_EXACT,
        outcome=OUTCOME_OK,
    )


class UnaryLimiter:
    """A decision a call."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = RateLimiterServiceStub(channel)

    async def first(self, request: ReserveRequest) -> bytes:
        """See `Peer`."""
        metadata = _metadata(request.request_id)
        response: ReserveResponse = await self._stub.Reserve(
            request, timeout=_TIMEOUT_S, metadata=metadata
        )
        return response.record

    async def second(self, request: SettleRequest) -> None:
        """See `Peer`."""
        await self._stub.Settle(request, timeout=_TIMEOUT_S, metadata=_metadata("settle"))


class MultiplexedLimiter:
    """Many decisions a frame, over the gateway's own stream."""

    def __init__(self, stream: AccountStream) -> None:
        self._stream = stream

    async def first(self, request: ReserveRequest) -> bytes:
        """See `Peer`."""
        response: ReserveResponse = await self._stream.call("reserve", request, _TIMEOUT_S)
        return response.record

    async def second(self, request: SettleRequest) -> None:
        """See `Peer`."""
        await self._stream.call("settle", request, _TIMEOUT_S)


class Echo:
    """An echo a call, of the same request with the same metadata."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call = channel.unary_unary(
            ECHO,
            request_serializer=ReserveRequest.SerializeToString,
            response_deserializer=ReserveRequest.FromString,
        )

    async def first(self, request: ReserveRequest) -> bytes:
        """See `Peer`."""
        await self._call(request, timeout=_TIMEOUT_S, metadata=_metadata(request.request_id))
        return b""

    async def second(self, request: SettleRequest) -> None:
        """See `Peer`."""
        await self.first(reserve_request("settle"))


class Clients:
    """So many closed loops over one peer, timed call by call."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._numbers = count()
        self._prefix = os.urandom(6).hex()
        self.seconds: list[float] = []

    async def run(self, clients: int, seconds: float) -> float:
        """Works for `seconds`; returns how long it took to the last answer."""
        began = time.perf_counter()
        await asyncio.gather(*(self._loop(began + seconds) for _ in range(clients)))
        return time.perf_counter() - began

    async def _loop(self, stop: float) -> None:
        while time.perf_counter() < stop:
            request = reserve_request(f"{self._prefix}-{next(self._numbers)}")
            began = time.perf_counter()
            record = await self._peer.first(request)
            reserved = time.perf_counter()
            await self._peer.second(settle_request(record))
            self.seconds += (reserved - began, time.perf_counter() - reserved)


@asynccontextmanager
async def open_peer(kind: str, target: str) -> AsyncIterator[Peer]:
    """The peer of that name."""
    if kind == "multiplex":
        token = SecretStr(os.environ[TOKEN_VARIABLE])
        async with open_channel(target, name="ratelimiter", token=token) as channel:
            stream = AccountStream(channel)
            stream.start()
            try:
                await stream.wait_connected(_TIMEOUT_S)
                yield MultiplexedLimiter(stream)
            finally:
                await stream.stop()
        return
    async with grpc.aio.insecure_channel(target, options=channel_options()) as channel:
        yield Echo(channel) if kind == "echo" else UnaryLimiter(channel)


async def main() -> None:
    """Warms up, waits for a line on stdin, measures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["unary", "multiplex", "echo"])
    parser.add_argument("target")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    setup_logs("bench", level="WARNING")
    async with open_peer(given.kind, given.target) as peer:
        warm_up = Clients(peer)
        await warm_up.run(given.clients, _WARM_UP_S)
        print("warm", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        clients = Clients(peer)
        cpu = time.process_time()
        took = await clients.run(given.clients, given.seconds)
        cpu = time.process_time() - cpu
    found = {
        "took": took,
        "cpu": cpu,
        "seconds": clients.seconds,
        "warm_up_calls": len(warm_up.seconds),
    }
    print(json.dumps(found), flush=True)


def _metadata(request_id: str) -> tuple[tuple[str, str], ...]:
    return (
        ("authorization", f"Bearer {os.environ[TOKEN_VARIABLE]}"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"),
        ("x-request-id", request_id),
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
