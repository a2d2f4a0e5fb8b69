"""A batch of 2,000 lines while every service is killed with -9 in turn: each line has exactly one
result and one charge."""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch

from tests.e2e.bill import Row, bill
from tests.e2e.counted import COUNTED, PRICED
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.wait import until
from weir_core.tasks import end_task

LINES = 2_000
LINES_A_KILL = 60
TTL_S = 5
SETTINGS = {
    "WEIR_GATEWAY__LEASE_S": str(TTL_S),
    "WEIR_RATELIMITER__TTL_S": str(TTL_S),
    "WEIR_RATELIMITER__SWEEP_INTERVAL_S": "0.5",
    "WEIR_WORKER__NULL_STEP_US": "20000",
}
VICTIMS = ("gateway", "worker-1", "ratelimiter", "scheduler")
ENDS = ("completed", "failed", "expired", "cancelled")
_TTL_MARGIN_S = 30


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_2000_lines_while_each_service_is_killed_in_turn(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    dice = random.Random(seed)
    async with deployed(
        tmp_path / "state",
        None,
        tenants={"acme": {"plan": "counted"}},
        plans=COUNTED,
        model=PRICED,
        workers=2,
        settings=SETTINGS,
    ) as stack:
        client = openai.AsyncOpenAI(
            base_url=stack.base_url, api_key=stack.secret("acme"), max_retries=10, timeout=60
        )
        made = await _submit(client, stack)
        killing = asyncio.create_task(_kill_in_turn(stack, dice, client, made.id))
        try:
            batch = await _ended(client, made.id)
        finally:
            await end_task(killing)
        print(f"killed {dict(KILLED)}; {batch.request_counts}; {batch.status}")
        assert batch.status == "completed"
        assert min(KILLED[victim] for victim in VICTIMS) >= 2
        lines = await _lines(client, batch.output_file_id)
        errors = await _lines(client, batch.error_file_id)
        assert [line["custom_id"] for line in lines] == [f"line-{n}" for n in range(LINES)]
        assert errors == []
        await until(
            lambda: bill(stack),
            lambda rows: _kept(rows) >= LINES,
            "a charge for each line",
            timeout_s=TTL_S + _TTL_MARGIN_S,
        )
        _each_is_charged_once(lines, await bill(stack))


KILLED: Counter[str] = Counter()


async def _submit(client: openai.AsyncOpenAI, stack: Deployment) -> Batch:
    content = "\n".join(json.dumps(_line(stack.model, number)) for number in range(LINES))
    file = await client.files.create(file=("lines.jsonl", content.encode()), purpose="batch")
    return await client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )


def _line(model: str, number: int) -> dict[str, Any]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"This is line {number}."}],
        "max_tokens": 4 + number % 13,
    }
    return {
        "custom_id": f"line-{number}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": body,
    }


async def _kill_in_turn(
    stack: Deployment, dice: random.Random, client: openai.AsyncOpenAI, batch_id: str
) -> None:
    """The next one once lines have ended since the one before: each is in the middle of work."""
    done = 0
    while True:
        for victim in VICTIMS:
            done = await _more_done(client, batch_id, done + LINES_A_KILL)
            await asyncio.sleep(dice.uniform(0, 0.5))
            pid = stack.stack.pids.get(victim)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                KILLED[victim] += 1


async def _more_done(client: openai.AsyncOpenAI, batch_id: str, least: int) -> int:
    async def look() -> int:
        try:
            counts = (await client.batches.retrieve(batch_id)).request_counts
        except openai.APIError:
            return 0
        return 0 if counts is None else counts.completed

    return await until(look, lambda done: done >= least, f"{least} lines", timeout_s=600)


async def _ended(client: openai.AsyncOpenAI, batch_id: str) -> Batch:
    async def look() -> Batch | None:
        try:
            return await client.batches.retrieve(batch_id)
        except openai.APIError as error:
            print(f"look: {error!r}")
            return None

    found = await until(
        look,
        lambda batch: batch is not None and batch.status in ENDS,
        "the end of the batch",
        timeout_s=1_800,
    )
    assert found is not None
    return found


async def _lines(client: openai.AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    content = await client.files.content(file_id)
    return [json.loads(line) for line in content.content.splitlines()]


def _kept(rows: Sequence[Row]) -> int:
    """Requests of which something was charged."""
    return len({row.request_id for row in rows if row.requests})


def _each_is_charged_once(lines: Sequence[dict[str, Any]], rows: Sequence[Row]) -> None:
    """A charge for the attempt that each line tells of, and nothing for any other."""
    mine: dict[str, list[Row]] = {}
    for row in rows:
        mine.setdefault(row.request_id, []).append(row)
    for line in lines:
        response = line["response"]
        charged = mine.pop(response["request_id"])
        usage = response["body"]["usage"]
        assert [row.kind for row in charged].count("charge") == 1
        assert sum(row.requests for row in charged) == 1
        assert sum(row.prompt for row in charged) == usage["prompt_tokens"]
        assert sum(row.completion for row in charged) == usage["completion_tokens"]
    for request_id, given_back in mine.items():
        assert sum(row.requests for row in given_back) == 0, request_id
        assert sum(row.tokens for row in given_back) == 0, request_id
