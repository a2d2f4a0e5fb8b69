"""Clients that leave at any point are charged exactly what the worker's record says."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tests.e2e.bill import Row
from tests.e2e.counted import books_closed
from tests.e2e.deployment import Deployment
from tests.e2e.streams import Seen, http_stream, stream
from tests.e2e.workers import terminal_records

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]

TENANT = "aborting"
DOORS = (stream, http_stream)
POINTS = ("sent", "accepted", "first token", "middle", "last token")
Leave = Callable[[Seen], bool]
Door = Callable[..., Coroutine[Any, Any, None]]


async def test_aborts_at_random_points_charge_exactly_what_ran(counting: Deployment) -> None:
    await _abort(counting, rounds=4, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_a_thousand_aborts_charge_exactly_what_ran(counting: Deployment) -> None:
    await _abort(counting, rounds=100, seed=random.randrange(10**6))


async def test_a_client_that_leaves_while_it_is_settled_pays_for_its_answer(
    counting: Deployment,
) -> None:
    """The ratelimiter is frozen from before the last tokens until the client has left."""
    limiter = counting.stack.pids["ratelimiter"]
    left = []
    for door in DOORS:
        seen = Seen(TENANT)
        leave = _frozen_before_the_end(limiter, 20)
        try:
            await asyncio.wait_for(door(counting, seen, [1] * 20, 20, leave=leave), 30)
        finally:
            os.kill(limiter, signal.SIGCONT)
        left.append(seen)
    rows = await _closed(counting)
    for seen in left:
        (row,) = [row for row in rows if row.request_id == seen.request_id]
        assert (row.outcome, row.prompt, row.completion) == ("ok", 20, 20)


async def _abort(stack: Deployment, *, rounds: int, seed: int) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    plan = [(door, point) for _ in range(rounds) for door in DOORS for point in POINTS]
    seen: list[Seen] = []
    for start in range(0, len(plan), 10):
        some = plan[start : start + 10]
        seen += await asyncio.gather(*(_left(stack, door, point, dice) for door, point in some))
    rows = await _closed(stack)
    mine = {one.request_id for one in seen if one.request_id}
    assert mine <= {row.request_id for row in rows}
    _every_kind_of_end(rows)


async def _left(stack: Deployment, door: Door, point: str, dice: random.Random) -> Seen:
    """One client that leaves at `point`."""
    output = dice.randint(5, 40)
    prompt = [dice.randrange(32, 127) for _ in range(dice.randint(1, 300))]
    marks = {"accepted": 0, "first token": 1, "middle": dice.randint(1, output), "sent": 10**9}
    mark = marks.get(point, output)
    seen = Seen(TENANT)
    reading = door(stack, seen, prompt, output, leave=lambda one: one.tokens >= mark)
    task = asyncio.create_task(reading)
    await asyncio.wait({task}, timeout=dice.uniform(0, 0.05) if point == "sent" else 60)
    task.cancel()
    await asyncio.wait({task})
    return seen


def _frozen_before_the_end(limiter: int, output: int) -> Leave:
    def leave(seen: Seen) -> bool:
        if seen.tokens >= output // 2:
            os.kill(limiter, signal.SIGSTOP)
        return seen.tokens >= output

    return leave


async def _closed(stack: Deployment) -> Sequence[Row]:
    """The rows of the tenant, each equal to the worker's record of its request."""
    rows = [row for row in await books_closed(stack, [TENANT]) if row.tenant == TENANT]
    records = await terminal_records(stack, [row.request_id for row in rows])
    for row in rows:
        record = records.get(row.request_id)
        ran = (0, 0, 0)
        if record is not None:
            usage = record.usage
            ran = usage.prompt_tokens, usage.cached_prompt_tokens, usage.completion_tokens
        assert (row.prompt, row.cached, row.completion) == ran, row
        assert row.exact, row
    return rows


def _every_kind_of_end(rows: Sequence[Row]) -> None:
    gone = [row for row in rows if row.outcome in ("cancelled", "client_gone")]
    assert len(gone) >= len(rows) // 3
    assert any(row.completion == 0 for row in gone)
    assert any(row.completion > 1 for row in gone)
