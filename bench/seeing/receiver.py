"""The other end of `bench.seeing.sink`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Received:
    """What has come so far."""

    spans: int
    traces: int


class Receiver:
    """A sink that runs. Made by `open_receiver`."""

    def __init__(self, process: asyncio.subprocess.Process, endpoint: str) -> None:
        self.endpoint = endpoint
        self._process = process

    async def received(self) -> Received:
        """Asks it."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return Received(**json.loads(await _line(self._process)))


@asynccontextmanager
async def open_receiver() -> AsyncIterator[Receiver]:
    """A sink in a process of its own, which ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.seeing.sink",
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Receiver(process, (await _line(process)).decode().strip())
    finally:
        process.terminate()
        await process.wait()


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    async with asyncio.timeout(_ANSWER_S):
        line = await process.stdout.readline()
    if not line:
        raise RuntimeError("the receiver of traces ended")
    return line
