"""The steps of a batch on both databases: whoever makes them, and however often they are cut off,
each line becomes one job and one line of output."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.batches.world import DAY_MS, LINES, MOST, World
from tests.ratelimiter.postgres import Postgres
from weir_core.database.url import parse_database_url
from weir_core.errors import WeirError
from weir_gateway.batches.batch import BatchState
from weir_gateway.batches.lease import LEASE_MS, LeaseLost
from weir_gateway.batches.output_line import output_line
from weir_gateway.files.file import Purpose
from weir_gateway.files.file_store import CHUNK_BYTES
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import JobState
from weir_gateway.jobs.leases import JobLeases, LeaseBounds
from weir_gateway.jobs.outcome import End
from weir_gateway.jobs.upkeep import JobUpkeep
from weir_gateway.state.database import StateDatabase

EXPECTED = [(number, f"line-{number}") for number in range(LINES)]


@pytest.fixture(params=["sqlite", "postgresql"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    server: Postgres | None = None
    url = f"sqlite:///{tmp_path}/state.sqlite"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        assert server is not None
        url = await server.new_database()
    state = StateDatabase(parse_database_url(url, "state_url", "a test"))
    yield World(state)
    await state.close()
    if server is not None:
        server.give_back(url)


async def test_a_process_that_was_slow_writes_nothing_after_another_took_over(
    world: World,
) -> None:
    await world.accepted()
    old = await world.take()
    assert await world.leases.take(without=()) is None
    seen = await world.look(old)
    world.clock.advance_us(2_000 * LEASE_MS)
    new = await world.take()
    await world.inserter.insert_slice(await world.look(new), new)
    with pytest.raises(LeaseLost):
        await world.inserter.insert_slice(seen, old)
    await world.insert_all(new)
    assert await world.lines() == EXPECTED


async def test_a_slice_that_is_cut_off_is_made_again_whole(world: World) -> None:
    await world.accepted()
    lease = await world.take()
    while (batch := await world.look(lease)).inserted < batch.total:
        world.jobs.fails = True
        with pytest.raises(WeirError):
            await world.inserter.insert_slice(batch, lease)
        world.jobs.fails = False
        assert await world.look(lease) == batch
        await world.inserter.insert_slice(batch, lease)
    assert await world.lines() == EXPECTED
    assert (batch.enqueued_tokens, batch.line_tokens) == (0, b"")


async def test_what_waits_is_counted_once_whether_it_is_a_job_yet_or_not(world: World) -> None:
    await world.accepted()
    lease = await world.take()
    while True:
        async with world.state.writing() as connection:
            waiting = await world.jobs.enqueued_tokens(connection, "acme", "tiny")
        assert waiting == 5 * LINES
        batch = await world.look(lease)
        if batch.inserted == batch.total:
            break
        await world.inserter.insert_slice(batch, lease)


async def test_output_is_in_order_and_once_whoever_writes_it(world: World) -> None:
    await world.accepted()
    lease = await world.take()
    batch = await world.insert_all(lease)
    await world.end_lines(JobState.SUCCEEDED)
    await world.end_lines(JobState.FAILED, first=10, last=20)
    await world.finaliser.begin(batch, lease, await world.jobs.counts(batch.id))
    while (batch := await world.look(lease)).written < batch.total:
        world.clock.advance_us(2_000 * LEASE_MS)
        old, lease = lease, await world.take()
        await world.finaliser.write_slice(batch, lease)
        with pytest.raises(LeaseLost):
            await world.finaliser.write_slice(batch, old)
    await world.finaliser.end(batch, lease)
    ended = await world.store.get("acme", batch.id)
    assert (ended.state, ended.completed, ended.failed) == (BatchState.COMPLETED, LINES - 10, 10)
    assert (ended.usage.prompt_tokens, ended.usage.completion_tokens) == (3 * LINES, 2 * LINES)
    names = [name for _, name in EXPECTED]
    assert await world.output(ended.output_file_id) == names[:10] + names[20:]
    assert await world.output(ended.error_file_id) == names[10:20]
    assert [one.state for one in world.ended] == [BatchState.COMPLETED]
    await world.jobs.drop_lines("globex", batch.id)
    assert len(await world.lines()) == LINES
    await world.jobs.drop_lines("acme", batch.id)
    assert not await world.lines()


async def test_lines_are_kept_until_their_batch_has_ended_and_go_then(world: World) -> None:
    await world.accepted()
    lease = await world.take()
    batch = await world.insert_all(lease)
    upkeep = JobUpkeep(world.state, JobEnds(), world.clock, retention_ms=1)
    leases = JobLeases(world.state, JobEnds(), world.clock, LeaseBounds(retention_ms=1))
    await leases.join("one")
    for job in await leases.claim("one", "acme", 10):
        assert await leases.end("one", job, End(state=JobState.SUCCEEDED, result=b"{}"))
    (queued, *_) = await world.jobs.of_batch("acme", batch.id, after_line=10, limit=1)
    await world.jobs.cancel("acme", queued.id)
    world.clock.advance_us(30_000 * DAY_MS)
    await upkeep.expire()
    assert (await upkeep.remove(), await upkeep.remove()) == (0, 0)
    assert len(await world.lines()) == LINES
    await world.store.sweep()
    assert len(await world.lines()) == LINES
    lease = await world.take()
    await world.finaliser.begin(batch, lease, await world.jobs.counts(batch.id))
    while (batch := await world.look(lease)).written < batch.total:
        await world.finaliser.write_slice(batch, lease)
    await world.finaliser.end(batch, lease)
    # Whoever ended it died before it dropped them.
    assert len(await world.lines()) == LINES
    await world.store.sweep()
    assert not await world.lines()
    assert (await world.store.get("acme", batch.id)).completed == 10


async def test_one_whose_window_ends_keeps_what_was_done_and_is_expired(world: World) -> None:
    await world.accepted()
    lease = await world.take()
    batch = await world.insert_all(lease)
    await world.end_lines(JobState.SUCCEEDED)
    await world.end_lines(JobState.EXPIRED, first=5)
    world.clock.advance_us(1_000 * DAY_MS)
    lease = await world.take()
    await world.finaliser.begin(batch, lease, await world.jobs.counts(batch.id))
    while (batch := await world.look(lease)).written < batch.total:
        await world.finaliser.write_slice(batch, lease)
    await world.finaliser.end(batch, lease)
    ended = await world.store.get("acme", batch.id)
    assert (ended.state, ended.completed) == (BatchState.EXPIRED, 5)
    assert len(await world.output(ended.error_file_id)) == LINES - 5


async def test_lines_that_are_no_jobs_when_it_is_cancelled_become_cancelled_ones(
    world: World,
) -> None:
    await world.accepted()
    lease = await world.take()
    batch = await world.look(lease)
    await world.inserter.insert_slice(batch, lease)
    seen = await world.look(lease)
    await world.store.cancel("acme", batch.id)
    with pytest.raises(LeaseLost):
        await world.inserter.insert_slice(seen, lease)
    # Some at a time, so that others can write meanwhile.
    for tenant_id, expected in (("globex", 0), ("acme", 60), ("acme", 40), ("acme", 0)):
        async with world.state.writing() as connection:
            changed = await world.jobs.cancel_lines(connection, tenant_id, batch.id, most=60)
        assert changed == expected
    await world.insert_all(lease)
    assert await world.lines() == EXPECTED
    assert await world.jobs.counts(batch.id) == {JobState.CANCELLED: LINES}


async def test_a_line_that_cannot_be_read_any_more_fails_alone(world: World) -> None:
    await world.accepted()
    lease = await world.take()
    await world.inserter.insert_slice(await world.look(lease), lease)
    # As after a restart with less of `max_body_bytes`.
    world.inserter._longest = 100
    batch = await world.insert_all(lease)
    counts = await world.jobs.counts(batch.id)
    assert counts == {JobState.QUEUED: 100, JobState.FAILED: LINES - 100}
    (last,) = await world.jobs.of_batch("acme", batch.id, after_line=LINES - 2, limit=1)
    assert (last.error_reason, last.custom_id) == ("INVALID_FIELD", "")
    assert "at most 100 are taken" in last.error_message
    assert json.loads(output_line(last))["response"]["status_code"] == 400


async def test_its_input_is_kept_until_all_lines_are_jobs(world: World) -> None:
    batch = await world.accepted()
    with pytest.raises(WeirError, match="a batch still reads the file"):
        await world.remover.remove("acme", batch.input_file_id)
    lease = await world.take()
    await world.insert_all(lease)
    await world.remover.remove("acme", batch.input_file_id)


async def test_expired_and_unfinished_files_are_swept_but_not_what_a_batch_holds(
    world: World,
) -> None:
    hour_us = 3_600_000_000
    batch = await world.accepted()
    unfinished = await world.files.begin("acme", MOST)
    await world.files.append(unfinished, b"x", MOST)
    expiring = await world.files.begin("acme", MOST)
    await world.files.finish(expiring, name="b", purpose=Purpose.USER_DATA, ttl_ms=1_000)
    async with world.state.writing() as connection:
        held = await world.files.create(connection, "acme", readers=1)
    world.clock.advance_us(2 * hour_us)
    assert await world.remover.sweep() == 2
    assert await world.remover.sweep() == 0
    with pytest.raises(WeirError):
        await world.files.append(unfinished, b"y", MOST)
    with pytest.raises(WeirError):
        await world.files.get("acme", expiring)
    await world.files.append(held, b"z", MOST)
    assert (await world.files.get("acme", batch.input_file_id)).size > CHUNK_BYTES


async def test_batches_are_shared_out_by_tenant(world: World) -> None:
    batch = await world.accepted()
    await world.store.add(replace(batch, id="batch_2", created_ms=batch.created_ms - 1))
    assert await world.leases.take(without=["acme"]) is None
    first, second = await world.take(), await world.take()
    assert (first.batch_id, second.batch_id) == ("batch_2", "batch_1")
    async with world.state.writing() as connection:
        await first.give_back(connection, in_ms=500)
    assert await world.leases.take(without=()) is None
    world.clock.advance_us(500_000)
    assert (await world.take()).batch_id == "batch_2"
