"""A gateway that is measured."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_MORE_S = 90.0


class MeasurementFailed(Exception):
    """A client process failed, or was answered with errors; in one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where it is reached.

    Attributes:
        name: for people, and of its figures.
        urls: of its chat completions, one for each of its processes.
        key, model: of the requests.
        token_characters: of each token that it streams.
    """

    name: str
    urls: Sequence[str]
    key: str
    model: str
    token_characters: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a client process; of streams also tokens and events with text, a second."""

    requests: int
    rps: float
    p50_ms: float
    p99_ms: float
    tokens_s: float
    events_s: float


async def measure(
    target: Target, *, clients: int, seconds: float, tokens: int, stream: bool
) -> Measured:
    """One run by a client process of its own.

    Raises:
        MeasurementFailed: not every request was answered in full.
    """
    command = [sys.executable, "-m", "bench.gateway.load", *target.urls, "--model", target.model]
    command += ["--clients", str(clients), "--seconds", str(seconds), "--tokens", str(tokens)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *(["--stream"] if stream else []),
        cwd=_ROOT,
        env=os.environ | {"BENCH_KEY": target.key},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds + _MORE_S):
            output, errors = await process.communicate()
    except TimeoutError:
        raise MeasurementFailed(f"{target.name} did not answer in time") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or ["no output"]
        raise MeasurementFailed(f"{target.name}: {lines[-1][:300]}")
    figures = json.loads(output.splitlines()[-1])
    requests, wall_s = figures["requests"], figures["wall_s"]
    if figures["errors"]:
        why = f"{figures['errors']} of {requests} requests failed: {figures['first_error']}"
        raise MeasurementFailed(f"{target.name}: {why}")
    streamed = figures["characters"] / target.token_characters
    if stream and streamed != requests * tokens:
        why = f"{requests} streams of {tokens} tokens brought {streamed} in all"
        raise MeasurementFailed(f"{target.name}: {why}")
    return Measured(
        requests=requests,
        rps=figures["rps"],
        p50_ms=figures["p50_ms"],
        p99_ms=figures["p99_ms"],
        tokens_s=streamed / wall_s,
        events_s=figures["events"] / wall_s,
    )
