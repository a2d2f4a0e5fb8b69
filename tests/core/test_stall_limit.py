"""One timer for many awaits, each with its own deadline."""

import asyncio

import pytest

from weir_core.stall_limit import StallLimit


async def test_a_block_that_takes_too_long_is_a_timeout() -> None:
    limit = StallLimit(0.05)
    with pytest.raises(TimeoutError), limit:
        await asyncio.sleep(60)
    assert limit.expired
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with limit:
        await asyncio.sleep(0)
    assert not limit.expired


async def test_each_block_has_the_whole_time() -> None:
    limit = StallLimit(2)
    loop = asyncio.get_running_loop()
    for _ in range(4):
        with limit:
            await asyncio.sleep(0.6)
    began = loop.time()
    with pytest.raises(TimeoutError), limit:
        await asyncio.sleep(60)
    assert loop.time() - began >= 2


async def test_time_between_blocks_does_not_count() -> None:
    limit = StallLimit(0.05)
    with limit:
        await asyncio.sleep(0)
    await asyncio.sleep(0.2)
    with limit:
        await asyncio.sleep(0)


async def test_a_cancellation_stays_one() -> None:
    limit = StallLimit(60)

    async def wait() -> None:
        with limit:
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    limit.close()


async def test_a_cancellation_beside_the_timeout_wins() -> None:
    limit = StallLimit(0.02)
    caught: list[str] = []

    async def wait() -> None:
        try:
            with limit:
                try:
                    await asyncio.sleep(60)
                finally:
                    me = asyncio.current_task()
                    assert me is not None
                    me.cancel()
        except TimeoutError:
            caught.append("timeout")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())
    assert caught == []


async def test_errors_pass() -> None:
    limit = StallLimit(60)
    with pytest.raises(KeyError), limit:
        raise KeyError
    limit.close()


async def test_many_blocks_have_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def counted(when: float, *args: object, **kwargs: object) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_at", counted)
    limit = StallLimit(60)
    for _ in range(100):
        with limit:
            await asyncio.sleep(0)
    limit.close()
    assert len(timers) == 1
