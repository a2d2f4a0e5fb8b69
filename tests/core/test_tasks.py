"""Tasks end when they are told to."""

import asyncio

from weir_core.tasks import end_task


async def test_a_task_that_loses_a_cancellation_ends_all_the_same() -> None:
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if lost:
                    raise
                lost += 1

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await end_task(task)
    assert lost == 1
    assert task.cancelled()


async def test_a_task_that_has_ended_is_left_alone() -> None:
    async def failing() -> None:
        raise ValueError("for whoever asks")

    task = asyncio.create_task(failing())
    await asyncio.wait({task})
    await end_task(task)
    assert isinstance(task.exception(), ValueError)
