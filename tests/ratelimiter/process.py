"""A real ratelimiter process, to be killed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.rpc.channel import ServiceChannel, open_channel

TOKEN = "cluster-secret-of-the-tests"
START_TIMEOUT_S = 60.0


class LimiterProcess:
    """One run of `python -m weir_ratelimiter`."""

    def __init__(self, process: asyncio.subprocess.Process, ready: dict[str, str]) -> None:
        self.process = process
        self.ready = ready
        self.channel: ServiceChannel = open_channel(
            ready["grpc"], name="ratelimiter", token=SecretStr(TOKEN)
        )
        self.stub = RateLimiterServiceStub(self.channel)

    async def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        await self.process.wait()

    async def terminate(self) -> int:
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 20)


async def spawn(journal: Path, directory_address: str, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "weir_ratelimiter",
        "--address=127.0.0.1:0",
        "--metrics-address=127.0.0.1:0",
        f"--directory-address={directory_address}",
        f"--journal={journal}",
        "--drain-s=1",
        "--grace-s=1",
        *more,
        env={**os.environ, "WEIR_CLUSTER_TOKEN": TOKEN},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def limiter_process(
    journal: Path, directory_address: str, *more: str
) -> AsyncIterator[LimiterProcess]:
    """A process that is ready, and gone afterwards."""
    process = await spawn(journal, directory_address, *more)
    drain = asyncio.create_task(_drain(process))
    try:
        assert process.stdout
        line = await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT_S)
        ready = json.loads(line or b"{}")
        assert ready.get("event") == "ready", ready
        limiter = LimiterProcess(process, ready)
        async with limiter.channel:
            yield limiter
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await drain


async def _drain(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr
    return await process.stderr.read()
