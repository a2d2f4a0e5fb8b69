"""A burst of requests is let in by parts."""

import asyncio

from weir_gateway.flow.turns import Turns


async def _enter(turns: Turns, name: int, entered: list[int]) -> None:
    await turns.take()
    entered.append(name)


async def _turn() -> None:
    await asyncio.sleep(0)


async def test_whoever_comes_alone_does_not_wait() -> None:
    turns = Turns(2)
    for _ in range(5):
        taking = turns.take()
        try:
            taking.send(None)
        except StopIteration:
            for _ in range(3):
                await _turn()
            continue
        raise AssertionError("it waited")


async def test_a_burst_enters_by_parts_and_in_order() -> None:
    turns, entered = Turns(2), list[int]()
    tasks = [asyncio.create_task(_enter(turns, name, entered)) for name in range(5)]
    seen: list[int] = []
    while len(entered) < 5:
        await _turn()
        if not seen or seen[-1] != len(entered):
            seen.append(len(entered))
    await asyncio.gather(*tasks)
    assert entered == [0, 1, 2, 3, 4]
    assert seen == [2, 4, 5]


async def test_a_part_has_two_turns_of_the_loop_before_the_next() -> None:
    turns, entered = Turns(1), list[int]()
    tasks = [asyncio.create_task(_enter(turns, name, entered)) for name in range(2)]
    turns_before = 0
    while len(entered) < 2:
        await _turn()
        turns_before += len(entered) == 1
    await asyncio.gather(*tasks)
    assert turns_before >= 2


async def test_one_that_leaves_holds_up_nobody() -> None:
    turns, entered = Turns(1), list[int]()
    tasks = [asyncio.create_task(_enter(turns, name, entered)) for name in range(3)]
    await _turn()
    tasks[1].cancel()
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert entered == [0, 2]


async def test_of_a_long_line_a_quarter_is_let_on() -> None:
    turns, entered = Turns(2), list[int]()
    tasks = [asyncio.create_task(_enter(turns, name, entered)) for name in range(42)]
    parts = [2]
    while len(entered) < 42:
        await _turn()
        if len(entered) != sum(parts):
            parts.append(len(entered) - sum(parts))
    await asyncio.gather(*tasks)
    assert parts[:3] == [2, 10, 7]
    assert entered == list(range(42))
