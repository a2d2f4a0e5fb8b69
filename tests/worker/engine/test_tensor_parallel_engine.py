"""An engine process with a second rank, on CPU: it answers, and ends when the rank does."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.tiny_llama import write_tiny_llama
from weir_core.clock import SystemClock
from weir_worker.engine.client import EngineClient
from weir_worker.engine.commands import Submit
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.events import FinishReason, Terminal
from weir_worker.engine.launchers import ProcessLauncher
from weir_worker.sampling import SamplingParams

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")


def submit(request_id: str, length: int) -> Submit:
    return Submit(
        request_id=request_id,
        attempt=1,
        tenant="t",
        prompt_token_ids=[97, 5, 31, 8],
        max_new_tokens=length,
        sampling=SamplingParams(temperature=0.0),
    )


async def terminal_of(client: EngineClient, asked: Submit) -> Terminal:
    last = [event async for event in client.stream(asked)][-1]
    assert isinstance(last, Terminal)
    return last


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def test_an_engine_of_two_ranks_answers_and_ends_with_one_of_them(tmp_path: Path) -> None:
    config = EngineConfig(
        model=str(write_tiny_llama(tmp_path, max_context=4096)),
        num_blocks=260,
        max_running=4,
        threads=1,
        device="cpu",
        kernels="off",
        tensor_parallel_size=2,
    )
    client = EngineClient(ProcessLauncher(config), SystemClock())
    try:
        ready = await client.start(110)
        assert not ready.batch_invariant
        answered = await terminal_of(client, submit("a", 6))
        assert answered.finish_reason == FinishReason.LENGTH
        assert answered.usage.completion_tokens == 6
        (rank,) = children(ready.pid)
        running = asyncio.create_task(terminal_of(client, submit("b", 4000)))
        os.kill(rank, signal.SIGKILL)
        lost = await asyncio.wait_for(running, 30)
        assert lost.finish_reason is FinishReason.ERROR
        assert not client.health.alive
    finally:
        await client.stop(5.0)
    deadline = time.monotonic() + 20
    while alive(ready.pid) or alive(rank):
        assert time.monotonic() < deadline, "a process outlived its engine"
        await asyncio.sleep(0.05)
