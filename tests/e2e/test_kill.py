"""kill -9 of gateway, ratelimiter and worker in mid-stream: every account closes, to the token."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest

from tests.e2e.bill import Row
from tests.e2e.counted import COUNTED, PRICED, books_closed
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.streams import LONGEST_S, Load, Seen, stream
from tests.e2e.told_once import at_rest, told_once
from tests.e2e.wait import until
from weir.common.v1.usage_pb2 import Usage

TTL_S = 2
# Slow enough that streams are in their middle for seconds; two workers, so that streams go on.
SETTINGS = {
    "WEIR_GATEWAY__LEASE_S": str(TTL_S),
    "WEIR_RATELIMITER__TTL_S": str(TTL_S),
    "WEIR_RATELIMITER__SWEEP_INTERVAL_S": "0.2",
    "WEIR_WORKER__NULL_STEP_US": "20000",
}
TENANTS = {"acme": {"plan": "counted"}, "globex": {"plan": "counted"}}
CLIENTS, PROMPT, OUTPUT = 8, 30, 40


@pytest.mark.timeout(180)
async def test_kill_9_three_times_each(tmp_path: Path) -> None:
    await _kill(tmp_path, rounds=3, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_kill_9_fifty_times_each(tmp_path: Path) -> None:
    await _kill(tmp_path, rounds=50, seed=random.randrange(10**6))


async def _kill(folder: Path, *, rounds: int, seed: int) -> None:
    """In each round kills all three, one after the other, while streams run."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    async with deployed(
        folder / "state",
        None,
        tenants=TENANTS,
        plans=COUNTED,
        model=PRICED,
        workers=2,
        settings=SETTINGS,
    ) as stack:
        load = Load(stack, list(TENANTS))
        for number in range(rounds):
            load.start(CLIENTS, prompt=PROMPT, output=OUTPUT)
            for victim in ("worker-1", "ratelimiter", "gateway"):
                # Every third time all of them are away at once.
                await _kill_in_mid_stream(stack, load, victim, dice, fresh=number % 3 < 2)
            await load.finish()
            await _back(stack)
            rows = await books_closed(stack, list(TENANTS), within_s=TTL_S + 5)
            await at_rest(stack)
            _everybody_was_told(load.seen)
            told_once(load.seen)
            _every_answer_is_charged(load.seen, rows)


async def _kill_in_mid_stream(
    stack: Deployment, load: Load, victim: str, dice: random.Random, *, fresh: bool
) -> None:
    """Kills once two streams run; with `fresh` such that were begun since the kill before."""
    began = len(load.seen) if fresh else 0

    async def running() -> int:
        return sum(seen.running for seen in load.seen[began:])

    await until(running, lambda count: count >= 2, "streams in their middle", timeout_s=60)
    await asyncio.sleep(dice.uniform(0, 0.4))
    os.kill(stack.stack.pids[victim], signal.SIGKILL)


async def _back(stack: Deployment) -> None:
    """The supervisor has restarted what was killed: both workers are there, and one answers."""

    async def answered() -> Seen:
        seen = Seen("acme")
        await stream(stack, seen, [1] * PROMPT, 2)
        return seen

    async def ready() -> set[str]:
        return {
            worker.registration.worker_id
            for worker in await stack.workers()
            if worker.state == "ready"
        }

    await until(answered, lambda seen: seen.record is not None, "an answer", timeout_s=60)
    await until(ready, lambda names: len(names) == 2, "two workers", timeout_s=60)


def _everybody_was_told(seen: Sequence[Seen]) -> None:
    """Each stream was answered, or ended soon with a reason."""
    assert all(one.ended - one.began < LONGEST_S / 2 for one in seen)
    untold = [one for one in seen if one.record is None and not (one.code and one.message)]
    assert untold == []
    codes = Counter(one.code for one in seen if one.code is not None)
    assert set(codes) <= {grpc.StatusCode.UNAVAILABLE}, codes


def _every_answer_is_charged(seen: Sequence[Seen], rows: Sequence[Row]) -> None:
    """One charge for each accepted request; of what was answered exactly what was told.

    Less only where the gateway was killed while it still tried to tell a ratelimiter that was
    away: then the sweep went by the last progress that was heard, if any was.
    """
    mine: dict[str, list[Row]] = {}
    for row in rows:
        mine.setdefault(row.request_id, []).append(row)
    for one in seen:
        if one.request_id:
            charged = mine[one.request_id]
            assert [row.kind for row in charged].count("charge") == 1
            if one.record is not None:
                _as_told(one.record.usage, charged)


def _as_told(told: Usage, charged: Sequence[Row]) -> None:
    prompt = sum(row.prompt for row in charged)
    output = sum(row.completion for row in charged)
    if [row.outcome for row in charged] == ["expired"]:
        assert prompt <= told.prompt_tokens
        assert output <= told.completion_tokens
    else:
        assert (prompt, output) == (told.prompt_tokens, told.completion_tokens)
