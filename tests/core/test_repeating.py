import asyncio

import pytest

from weir_core import repeating
from weir_core.errors import Reason, WeirError
from weir_core.repeating import Repeating

DEADLINE_S = 5.0


async def test_no_failure_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "_AWAY_S", 0.0)
    done = asyncio.Event()
    faults = [WeirError(Reason.STATE_UNAVAILABLE, "away"), KeyError("a fault of ours")]

    async def work() -> None:
        if faults:
            raise faults.pop()
        done.set()

    background = Repeating("work", work, 0.0)
    background.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            await done.wait()
    finally:
        await background.stop()


async def test_it_ends_in_its_work_and_in_its_pause() -> None:
    works, pauses = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        works.set()

    async def pause() -> None:
        pauses.set()
        await asyncio.Future()

    async def never() -> None:
        works.set()
        await asyncio.Future()

    for background, where in (
        (Repeating("pauses", work, pause), pauses),
        (Repeating("works", never, 0.0), works),
    ):
        works.clear()
        background.start()
        async with asyncio.timeout(DEADLINE_S):
            await where.wait()
            await background.stop()
