"""The other end of a peer's runner."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.home import gguf_file, interpreter, is_installed, model_files, peers_home
from bench.workload import Shape

_ROOT = Path(__file__).resolve().parents[2]
_STOP_S = 15.0


class PeerFailed(Exception):
    """A peer is not there, ended or took too long; in one line."""


@dataclass(frozen=True, slots=True)
class Runner:
    """How a peer is started: its name in figures, its environment, module and model."""

    name: str
    environment: str
    module: str
    model: Path


RUNNERS = (
    Runner("openvino", "openvino", "run_openvino", model_files("openvino-int8")),
    Runner("llama.cpp", "llamacpp", "run_llamacpp", gguf_file()),
    Runner("vllm", "vllm", "run_vllm", model_files("f32")),
    Runner("transformers", "transformers", "run_transformers", model_files("f32")),
)


class PeerProcess:
    """A runner that is loaded and waits for orders. Made by `open_peer`."""

    def __init__(self, runner: Runner, process: asyncio.subprocess.Process) -> None:
        self.name = runner.name
        self._process = process

    async def output_tokens_per_second(self, shape: Shape, seed: int, timeout_s: float) -> float:
        """A closed batch of exactly `shape.output` tokens each. Raises PeerFailed."""
        order = {"streams": shape.streams, "prompt": shape.prompt, "output": shape.output}
        answer = await self.ask({"do": "batch", **order, "seed": seed}, timeout_s)
        return shape.streams * shape.output / float(answer["wall_s"])

    async def logits(self, token_ids: list[int], to: Path, timeout_s: float) -> bool:
        """Save the logits [tokens, vocabulary]; False where it gives none. Raises PeerFailed."""
        order = {"do": "logits", "token_ids": token_ids, "to": str(to)}
        return (await self.ask(order, timeout_s))["rows"] is not None

    async def ask(self, order: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Its answer to an order. Raises PeerFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps(order) + "\n").encode())
        return await self.answer(timeout_s)

    async def answer(self, timeout_s: float) -> dict[str, Any]:
        """Its next line. Raises PeerFailed."""
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        except TimeoutError:
            raise PeerFailed(f"{self.name} did not answer within {timeout_s:.0f} s") from None
        if not line:
            raise PeerFailed(f"{self.name} ended; see {_log(self.name)}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def open_peer(runner: Runner, timeout_s: float) -> AsyncIterator[PeerProcess]:
    """A loaded peer. Raises PeerFailed."""
    if not is_installed(runner.environment) or not runner.model.exists():
        raise PeerFailed(f"{runner.name} is not installed; `make peers` does")
    with _log(runner.name).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(interpreter(runner.environment)),
            "-m",
            f"bench.peers.{runner.module}",
            str(runner.model),
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # A group of its own: engines have children, which must end with it.
            start_new_session=True,
        )
    peer = PeerProcess(runner, process)
    try:
        await peer.answer(timeout_s)
        yield peer
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to stop, then make sure that its group is gone."""
    with suppress(ConnectionError, TimeoutError):
        if process.stdin is not None:
            process.stdin.write(b'{"do": "stop"}\n')
        await asyncio.wait_for(process.wait(), _STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    await process.wait()


def _log(name: str) -> Path:
    return peers_home() / f"run-{name}.log"
