"""Other processes take the processors of a worker that computes: the doctor says so."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.clients import Clients, fresh
from tests.doctor.conftest import PROPERTY
from tests.doctor.site import open_site
from tests.tiny_llama import write_tiny_llama

_LAYERS = 96
"""So many that a step computes for longer than the kernel lets others wait for a turn."""
_OTHERS = 12
"""Processes on the processor of the engine, which is left a thirteenth of it."""


@asynccontextmanager
async def others(number: int, processor: int) -> AsyncIterator[None]:
    """Processes that compute as much as they may on one processor, until the body ends.

    Each in a session of its own, as the engine is: Linux may share time among sessions first.
    """
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", "while True: pass", start_new_session=True
        )
        for _ in range(number)
    ]
    for process in running:
        os.sched_setaffinity(process.pid, {processor})
    try:
        yield
    finally:
        for process in running:
            process.kill()
        await asyncio.gather(*(process.wait() for process in running))


# It takes a processor from all else that runs there.
@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_the_doctor_sees_that_others_take_the_device(
    tmp_path: Path, record_property: Any
) -> None:
    model = write_tiny_llama(tmp_path / "tiny", num_layers=_LAYERS)
    # Enough that the engine is what they all wait for.
    load = [Clients(6, fresh(40), output=16)]
    async with open_site(tmp_path, model, {"WEIR_WORKER__THREADS": "1"}) as site:
        processor = min(os.sched_getaffinity(0))
        keep_on(processor, site.stack.stack.pids["worker-1"])
        async with site.phase(load):
            pass
        async with others(_OTHERS, processor), site.phase(load):
            told = await site.doctor()
        causes = [finding["cause"] for finding in told["findings"]]
        said = causes[0] if causes else "nothing"
        record_property(PROPERTY, ("others take the device", "device_taken", said))
        assert said == "device_taken", told
        assert "the engine waits" in told["findings"][0]["evidence"][1], told


def keep_on(processor: int, worker: int) -> None:
    """Binds the engine of a worker, with all its threads, to one processor."""
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    assert children, "the engine is a process of its own"
    for child in children:
        for thread in Path(f"/proc/{child}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {processor})
