"""Reads of the past: beside the loop, one after the other, and none of a tenant's too many."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.harness import eventually
from weir_core.errors import Reason, WeirError
from weir_gateway.history.readings import Readings


@pytest_asyncio.fixture
async def readings() -> AsyncIterator[Readings]:
    made = Readings()
    yield made
    made.close()


async def test_a_tenant_waits_for_so_many_and_holds_nobody_else_up(readings: Readings) -> None:
    release, ran = threading.Event(), []

    def slow() -> int:
        assert release.wait(20)
        ran.append(threading.current_thread())
        return 1

    own = [asyncio.create_task(readings.run("acme", slow)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(WeirError, match="4 looks") as refused:
        await readings.run("acme", slow)
    assert refused.value.reason is Reason.RATE_LIMIT_EXCEEDED
    async with asyncio.timeout(20):
        # The loop goes on, and so do administrators.
        assert await readings.run("", lambda: 2) == 2
        other = asyncio.create_task(readings.run("globex", slow))
        release.set()
        assert await asyncio.gather(*own, other) == [1] * 5
    assert len(set(ran)) == 1


async def test_who_gives_up_frees_the_place_when_the_read_has_ended(readings: Readings) -> None:
    release, begun = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert release.wait(20)

    for _ in range(4):
        left = asyncio.create_task(readings.run("acme", slow))
        await asyncio.sleep(0)
        if not begun.is_set():
            await asyncio.to_thread(begun.wait, 20)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
    release.set()

    async def free() -> bool:
        return await readings.run("acme", lambda: True)

    async with asyncio.timeout(20):
        assert await free()
    await eventually(lambda: not readings.open_for("acme"))


async def test_a_read_that_fails_says_so_to_whoever_asked(readings: Readings) -> None:
    def bad() -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        await readings.run("acme", bad)
    await eventually(lambda: not readings.open_for("acme"))
