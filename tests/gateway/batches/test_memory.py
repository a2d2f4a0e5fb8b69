"""However long a batch is, the gateway holds a slice of it."""

import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.gateway.batches.site import chat_line
from tests.gateway.batches.world import World
from weir_core.database.url import parse_database_url
from weir_gateway.batches.validation import Checked, Validator
from weir_gateway.jobs.job import JobState
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.kinds.openai_kind import OpenAiKind
from weir_gateway.jobs.tables import jobs
from weir_gateway.state.database import StateDatabase

TEXT = "x" * 3_800
ANSWER = json.dumps({"choices": [{"text": TEXT}]}).encode()


class FixedCost:
    """Each line is of 7 tokens."""

    def model_name(self, caller: Any, model: str) -> str:
        return model

    async def tokens(self, caller: Any, request: Any) -> int:
        return 7


async def content(lines: int) -> AsyncIterator[bytes]:
    for number in range(lines):
        line = chat_line(number, messages=[{"role": "user", "content": TEXT}])
        yield json.dumps(line).encode() + b"\n"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    url = parse_database_url(f"sqlite:///{tmp_path}/state.sqlite", "state_url", "a test")
    state = StateDatabase(url)
    yield World(state)
    await state.close()


async def walk(world: World, lines: int) -> tuple[int, int]:
    """Checks, inserts and writes out a batch; bytes of its input, and most held at once."""
    batch = await world.accepted_of(content(lines), lines)
    kinds = JobKinds()
    kinds.register("chat", OpenAiKind(chat=True))
    validator = Validator(
        files=world.files,
        kinds=kinds,
        cost=FixedCost(),  # type: ignore[arg-type]
        clock=world.clock,
        longest=10_000,
    )

    async def beat() -> None:
        pass

    tracemalloc.start()
    try:
        found = await validator.check(batch, None, beat)  # type: ignore[arg-type]
        assert isinstance(found, Checked)
        assert (len(found.tokens), sum(found.tokens)) == (lines, 7 * lines)
        del found
        lease = await world.take()
        batch = await world.insert_all(lease)
        async with world.state.writing(limit_s=300) as connection:
            ended = update(jobs).values(state=JobState.SUCCEEDED.value, result=ANSWER)
            await connection.execute(ended)
        await world.finaliser.begin(batch, lease, await world.jobs.counts(batch.id))
        while (batch := await world.look(lease)).written < batch.total:
            await world.finaliser.write_slice(batch, lease)
        await world.finaliser.end(batch, lease)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    batch = await world.store.get("acme", batch.id)
    size = (await world.files.get("acme", batch.input_file_id)).size
    output = await world.files.get("acme", batch.output_file_id)
    assert output.size > lines * len(ANSWER)
    return size, peak


async def test_2000_lines(world: World) -> None:
    size, peak = await walk(world, 2_000)
    assert size > 7_500_000
    assert peak < 6_000_000


@pytest.mark.soak
@pytest.mark.timeout(1_800)
async def test_50000_lines_of_195_megabytes(world: World) -> None:
    size, peak = await walk(world, 50_000)
    print(f"{size} bytes of input, {peak} held at most")
    assert size > 190_000_000
    assert peak < 25_000_000
