"""A deadline that does not count against the store what this process was late itself."""

import asyncio
import time

import pytest

from weir_ratelimiter.store.degraded.deadline import within


async def test_an_answer_in_time() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    assert await within(5.0, answer()) == 7


async def test_no_answer_is_given_up_and_cancelled() -> None:
    cancelled = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        await within(0.01, never())
    assert cancelled.is_set()


async def test_an_answer_that_waited_for_this_process_counts() -> None:
    arrived = asyncio.Event()

    async def answer() -> int:
        await arrived.wait()
        return 7

    waiting = asyncio.create_task(within(0.05, answer()))
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251
    asyncio.get_running_loop().call_soon(arrived.set)
    assert await waiting == 7
