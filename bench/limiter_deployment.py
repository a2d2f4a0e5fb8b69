"""The processes of `make bench-limiter`: ratelimiters, the echo, and their clients."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from bench.limiter_load import SUBJECT, TOKEN_VARIABLE
from weir.directory.v1 import directory_pb2 as pb
from weir.directory.v1.directory_service_pb2 import Keepalive, WatchRequest, WatchResponse
from weir.directory.v1.directory_service_pb2_grpc import (
    DirectoryServiceServicer,
    add_DirectoryServiceServicer_to_server,
)
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.rpc.interceptors.handler import Context

TOKEN = "cluster-secret-of-the-benchmark"
_START_S = 60.0
_PLENTY = 10**12
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Running:
    """A process that serves."""

    target: str
    process: asyncio.subprocess.Process

    def cpu_s(self) -> float:
        """CPU time so far, user and system, seconds (Linux)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True)
class Measured:
    """One run of one client process."""

    rate: float
    """Answered calls per second."""
    server_us: float
    """CPU of the server, microseconds a call."""
    client_us: float
    seconds: list[float]
    """Duration of each call."""
    warm_up_calls: int


def snapshot() -> pb.Snapshot:
    """Eight counted limits in five layers, none of them in the way."""
    tokens, requests = pb.LIMIT_RESOURCE_TOKENS, pb.LIMIT_RESOURCE_REQUESTS
    bucket, lease = pb.LIMIT_KIND_BUCKET, pb.LIMIT_KIND_LEASE
    tpm = pb.Limit(id="tpm", kind=bucket, resource=tokens, capacity=_PLENTY)
    rps = pb.Limit(id="rps", kind=bucket, resource=requests, capacity=_PLENTY)
    concurrency = pb.Limit(
        id="concurrency", kind=lease, resource=pb.LIMIT_RESOURCE_CONCURRENCY, capacity=_PLENTY
    )
    me = SUBJECT.tenant_id
    return pb.Snapshot(
        version=1,
        cluster_limits=[tpm],
        plans=[pb.Plan(id=me, limits=[rps, concurrency, tpm])],
        tenants=[pb.Tenant(id=me, plan_id=me)],
        users=[pb.User(id=me, tenant_id=me, limits=[tpm])],
        api_keys=[pb.ApiKey(id=me, tenant_id=me, user_id=me, limits=[rps, tpm])],
        models=[pb.Model(name=me, limits=[tpm])],
    )


@asynccontextmanager
async def directory(published: pb.Snapshot) -> AsyncIterator[str]:
    """The address of a directory that serves one snapshot."""
    server = grpc.aio.server()
    add_DirectoryServiceServicer_to_server(_Directory(published), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def ratelimiter(folder: Path, directory_address: str, *more: str) -> AsyncIterator[Running]:
    """A real ratelimiter process that has its limits."""
    arguments = (
        "--address=127.0.0.1:0",
        "--metrics-address=127.0.0.1:0",
        f"--directory-address={directory_address}",
        f"--journal={folder}",
        "--log-level=WARNING",
        *more,
    )
    async with _python("-m", "weir_ratelimiter", *arguments) as (process, line):
        running = Running(json.loads(line)["grpc"], process)
        await _limits_known(running.target)
        yield running


@asynccontextmanager
async def echo() -> AsyncIterator[Running]:
    """The yardstick, as a process."""
    async with _python("-m", "bench.echo_server") as (process, line):
        yield Running(f"127.0.0.1:{int(line)}", process)


async def measure(kind: str, server: Running, *more: str) -> Measured:
    """One run of one client process against one server."""
    async with _python("-m", "bench.limiter_load", kind, server.target, *more) as (process, _):
        assert process.stdin
        assert process.stdout
        before = server.cpu_s()
        process.stdin.write(b"go\n")
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        used = server.cpu_s() - before
    found = json.loads(line)
    calls = len(found["seconds"])
    return Measured(
        rate=calls / found["took"],
        server_us=used / calls * 1e6,
        client_us=found["cpu"] / calls * 1e6,
        seconds=found["seconds"],
        warm_up_calls=found["warm_up_calls"],
    )


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


class _Directory(DirectoryServiceServicer):
    def __init__(self, published: pb.Snapshot) -> None:
        self._published = published

    async def Watch(  # noqa: N802
        self, request: WatchRequest, context: Context
    ) -> AsyncIterator[WatchResponse]:
        yield WatchResponse(snapshot=self._published)
        while True:
            await asyncio.sleep(5)
            yield WatchResponse(keepalive=Keepalive(version=self._published.version))


@asynccontextmanager
async def _python(
    *arguments: str,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, bytes]]:
    """A Python process and its first line on stdout; killed in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, TOKEN_VARIABLE: TOKEN},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=256 * 1024 * 1024,
    )
    try:
        assert process.stdout
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        if not line:
            raise RuntimeError(f"{' '.join(arguments)} ended with {await process.wait()}")
        yield process, line
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _limits_known(target: str) -> None:
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    request = ExplainRequest()
    request.subject.tenant_id = SUBJECT.tenant_id
    async with grpc.aio.insecure_channel(target) as channel, asyncio.timeout(_START_S):
        stub = RateLimiterServiceStub(channel)
        while True:
            try:
                await stub.Explain(request, metadata=metadata, timeout=5)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)
            else:
                return
