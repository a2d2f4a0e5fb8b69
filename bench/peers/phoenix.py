"""Arize Phoenix, a viewer of traces, started as its own documentation says."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench.child_process import end_process
from bench.peers.home import environment, is_installed
from bench.peers.peer_process import PeerFailed

_HOST = "127.0.0.1"
_START_S = 240.0
_STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class Phoenix:
    """Where it is.

    Attributes:
        url: of its pages and its REST API.
        otlp: where spans go.
    """

    url: str
    otlp: str


@asynccontextmanager
async def phoenix(folder: Path) -> AsyncIterator[Phoenix]:
    """Runs it, with its database in `folder`. Raises PeerFailed."""
    if not is_installed("phoenix"):
        raise PeerFailed('phoenix is not installed; `make peers ARGS="phoenix"` does')
    http, grpc = _free_port(), _free_port()
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": _HOST,
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (folder / "phoenix.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(environment("phoenix") / "bin" / "phoenix"),
            "serve",
            env=os.environ | settings,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        found = Phoenix(f"http://{_HOST}:{http}", f"http://{_HOST}:{grpc}")
        await _wait_ready(process, found, folder / "phoenix.log")
        yield found
    finally:
        await end_process(process, _STOP_S)


async def _wait_ready(process: asyncio.subprocess.Process, found: Phoenix, log: Path) -> None:
    try:
        async with asyncio.timeout(_START_S), httpx2.AsyncClient() as client:
            while process.returncode is None:
                try:
                    if (await client.get(f"{found.url}/healthz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise PeerFailed(f"phoenix did not answer within {_START_S:.0f} s") from None
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    raise PeerFailed(f"phoenix ended: {last[:300]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
