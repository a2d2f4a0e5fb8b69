"""Who may run and end a job, on both databases: whatever runners do, it ends once."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.gateway.jobs.making import a_job
from weir.common.v1.usage_pb2 import Usage
from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.leases import JobLeases, LeaseBounds
from weir_gateway.jobs.outcome import Again, End
from weir_gateway.jobs.store import JobStore
from weir_gateway.jobs.upkeep import JobUpkeep
from weir_gateway.state.database import StateDatabase

LEASE_MS = 30_000
LOST = Again(WeirError(Reason.WORKER_LOST, "gone"), 0, failed=True)
LATER = Again(WeirError(Reason.TOKEN_LIMIT_EXCEEDED, "later", retry_after_s=5.0), 5_000, False)


class Site:
    """One database and its clock."""

    def __init__(self, state: StateDatabase, *, most_failures: int = 1_000) -> None:
        self.clock = ManualClock()
        self.told: Counter[str] = Counter()
        ends = JobEnds()
        ends.listen(self._on_end)
        bounds = LeaseBounds(
            lease_ms=LEASE_MS, retention_ms=86_400_000, most_failures=most_failures
        )
        self.leases = JobLeases(state, ends, self.clock, bounds)
        self.store = JobStore(state, ends, self.clock, retention_ms=86_400_000)
        self.upkeep = JobUpkeep(state, ends, self.clock, retention_ms=86_400_000)
        self.state = state

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def later(self, ms: int) -> None:
        self.clock.advance_us(ms * 1_000)

    async def add(self, *added: Job) -> None:
        async with self.state.writing() as connection:
            await self.store.add_many(connection, added)

    async def _on_end(self, _: AsyncConnection, job: Job) -> None:
        assert job.state.ended
        self.told[job.id] += 1


@pytest.fixture
def make(state: StateDatabase) -> Callable[..., Site]:
    return lambda **options: Site(state, **options)


async def test_a_claimed_job_is_nobody_elses(make: Callable[..., Site]) -> None:
    site = make()
    await site.add(*(a_job(site.clock, n) for n in range(3)))
    for runner in ("one", "two"):
        await site.leases.join(runner)
    first = await site.leases.claim("one", "acme", 2)
    second = await site.leases.claim("two", "acme", 2)
    assert [len(first), len(second)] == [2, 1]
    assert not {job.id for job in first} & {job.id for job in second}
    assert {job.attempt for job in [*first, *second]} == {1}
    assert not await site.leases.end("two", first[0], End(state=JobState.SUCCEEDED))
    assert await site.leases.end("one", first[0], End(state=JobState.SUCCEEDED, result=b"r"))
    # Its answer was lost, say: told again it is still ours, and nobody is told twice.
    assert await site.leases.end("one", first[0], End(state=JobState.SUCCEEDED, result=b"r"))
    found = await site.store.get("acme", first[0].id)
    assert (found.state, found.result) == (JobState.SUCCEEDED, b"r")
    assert site.told == {first[0].id: 1}


async def test_what_a_dead_runner_had_is_run_again_and_its_late_end_is_not_taken(
    make: Callable[..., Site],
) -> None:
    site = make()
    await site.add(a_job(site.clock))
    await site.leases.join("one")
    (old,) = await site.leases.claim("one", "acme", 1)
    await site.leases.join("two")
    assert await site.leases.recover(LOST) == 0
    site.later(LEASE_MS + 1)
    assert await site.leases.renew("two")
    assert await site.leases.recover(LOST) == 1
    assert not await site.leases.renew("one")
    (new,) = await site.leases.claim("two", "acme", 1)
    assert (new.attempt, new.failures) == (2, 1)
    assert new.request_id != old.request_id
    assert not await site.leases.end("one", old, End(state=JobState.SUCCEEDED, result=b"old"))
    await site.leases.put_back("one", old.id, old.attempt, LOST)
    assert await site.leases.end("two", new, End(state=JobState.SUCCEEDED, result=b"new"))
    found = await site.store.get("acme", new.id)
    assert (found.state, found.result) == (JobState.SUCCEEDED, b"new")


@pytest.mark.parametrize("cancelled", [True, False])
async def test_an_attempt_that_another_ended_is_not_charged(
    make: Callable[..., Site], cancelled: bool
) -> None:
    site = make(most_failures=1)
    await site.add(a_job(site.clock))
    await site.leases.join("slow")
    (job,) = await site.leases.claim("slow", "acme", 1)
    if cancelled:
        await site.store.cancel("acme", job.id)
    site.later(LEASE_MS + 1)
    assert await site.leases.recover(LOST) == 1
    ended = await site.store.get("acme", job.id)
    assert (ended.state.ended, ended.request_id) == (True, job.request_id)
    usage = Usage(prompt_tokens=3, completion_tokens=2)
    for state in (JobState.SUCCEEDED, JobState.CANCELLED, JobState.FAILED):
        assert not await site.leases.end("slow", job, End(state=state, usage=usage, charge=b"c"))
    assert await site.store.get("acme", job.id) == ended
    assert site.told == {job.id: 1}


async def test_ids_that_no_database_can_hold_are_of_no_job(make: Callable[..., Site]) -> None:
    site = make()
    for job_id in ("", "job\0", "ä", "x" * 200):
        with pytest.raises(WeirError) as caught:
            await site.store.get("acme", job_id)
        assert caught.value.reason is Reason.JOB_NOT_FOUND


async def test_a_job_that_kills_whoever_runs_it_fails_in_the_end(
    make: Callable[..., Site],
) -> None:
    site = make(most_failures=3)
    await site.add(a_job(site.clock))
    for number in range(3):
        await site.leases.join(f"runner-{number}")
        (job,) = await site.leases.claim(f"runner-{number}", "acme", 1)
        site.later(LEASE_MS + 1)
        assert await site.leases.recover(LOST) == 1
    found = await site.store.get("acme", job.id)
    assert (found.state, found.error_reason) == (JobState.FAILED, "WORKER_LOST")
    assert site.told == {job.id: 1}


async def test_a_refusal_that_repeats_what_no_database_can_hold_is_kept(
    make: Callable[..., Site],
) -> None:
    site = make()
    await site.add(a_job(site.clock))
    await site.leases.join("one")
    (job,) = await site.leases.claim("one", "acme", 1)
    error = WeirError(Reason.UNSUPPORTED_FIELD, "a\0b\ud800é is not supported")
    await site.leases.put_back("one", job.id, job.attempt, Again(error, 0, failed=False))
    (job,) = await site.leases.claim("one", "acme", 1)
    assert await site.leases.end("one", job, End(state=JobState.FAILED, error=error))
    found = await site.store.get("acme", job.id)
    assert found.error_message == "a\\0b\\ud800é is not supported"


async def test_a_refusal_for_the_time_being_waits_and_counts_as_no_failure(
    make: Callable[..., Site],
) -> None:
    site = make(most_failures=1)
    await site.add(a_job(site.clock))
    await site.leases.join("one")
    (job,) = await site.leases.claim("one", "acme", 1)
    await site.leases.put_back("one", job.id, job.attempt, LATER)
    waiting = await site.store.get("acme", job.id)
    assert (waiting.state, waiting.error_reason) == (JobState.QUEUED, "TOKEN_LIMIT_EXCEEDED")
    assert not await site.leases.claim("one", "acme", 1)
    site.later(5_000)
    (again,) = await site.leases.claim("one", "acme", 1)
    assert (again.attempt, again.failures, again.error_reason) == (2, 0, "")


async def test_cancelled_jobs_end_whoever_has_them(make: Callable[..., Site]) -> None:
    site = make()
    await site.add(*(a_job(site.clock, n) for n in range(3)))
    await site.leases.join("one")
    running, lost = await site.leases.claim("one", "acme", 2)
    (queued,) = await site.store.list("acme", limit=10, state=JobState.QUEUED)
    for job in (running, lost, queued):
        await site.store.cancel("acme", job.id)
    assert {held.cancelled for held in await site.leases.held("one")} == {True}
    # Of two that run one is put back by its runner, and the other's runner dies.
    await site.leases.put_back("one", running.id, running.attempt, LATER)
    site.later(LEASE_MS + 1)
    await site.leases.recover(LOST)
    for job in (running, lost, queued):
        found = await site.store.get("acme", job.id)
        assert found.state is JobState.CANCELLED
    assert site.told == {running.id: 1, lost.id: 1, queued.id: 1}


async def test_windows_end_and_what_was_kept_long_enough_goes(make: Callable[..., Site]) -> None:
    site = make()
    await site.add(a_job(site.clock, 0, window_ms=1_000), a_job(site.clock, 1))
    assert await site.upkeep.expire() == 0
    site.later(1_000)
    assert not [job for job in await site.leases.claim("one", "acme", 1) if job.line == 0]
    assert await site.upkeep.expire() == 1
    expired = await site.store.list("acme", limit=10, state=JobState.EXPIRED)
    assert len(expired) == 1
    assert await site.upkeep.remove() == 0
    site.later(86_400_001)
    assert await site.upkeep.remove() == 1
    with pytest.raises(WeirError) as caught:
        await site.store.get("acme", expired[0].id)
    assert caught.value.reason is Reason.JOB_NOT_FOUND


@dataclass
class _Model:
    """What the walk remembers: claims that a runner believes to have."""

    held: dict[str, list[Job]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_runners_do_every_job_ends_once(
    make: Callable[..., Site], seed: int
) -> None:
    site, rng, model = make(), random.Random(seed), _Model()
    total = 12
    await site.add(*(a_job(site.clock, n, window_ms=10**9) for n in range(total)))
    for step in range(120):
        await _act(site, rng, model, step)
    # In the end one runner is left, that does its work.
    site.later(LEASE_MS * 3)
    await site.leases.join("last")
    while await site.leases.recover(LOST):
        pass
    site.later(10_000)
    while claimed := await site.leases.claim("last", "acme", 5):
        for job in claimed:
            assert await site.leases.end("last", job, End(state=JobState.SUCCEEDED))
            model.ended[job.id] = job.request_id
    jobs = await site.store.list("acme", limit=100)
    assert len(jobs) == total
    assert {job.state for job in jobs} <= {JobState.SUCCEEDED, JobState.CANCELLED}
    assert site.told == dict.fromkeys((job.id for job in jobs), 1)
    for job in jobs:
        if job.state is JobState.SUCCEEDED:
            assert job.request_id == model.ended[job.id]


async def _act(site: Site, rng: random.Random, model: _Model, step: int) -> None:
    runner = rng.choice(list(model.held) or [""])
    action = rng.choice(["join", "claim", "claim", "end", "end", "again", "beat", "time", "recover",
                         "die", "cancel"])  # fmt: skip
    if action == "join" and len(model.held) < 3:
        await site.leases.join(f"runner-{step}")
        model.held[f"runner-{step}"] = []
    elif action == "claim" and runner:
        model.held[runner] += await site.leases.claim(runner, "acme", rng.randint(1, 3))
    elif action == "end" and model.held.get(runner):
        job = model.held[runner].pop(rng.randrange(len(model.held[runner])))
        if await site.leases.end(runner, job, End(state=JobState.SUCCEEDED)):
            # Nobody else had ended it.
            assert model.ended.setdefault(job.id, job.request_id) == job.request_id
    elif action == "again" and model.held.get(runner):
        job = model.held[runner].pop()
        await site.leases.put_back(runner, job.id, job.attempt, rng.choice([LOST, LATER]))
    elif action == "beat" and runner:
        await site.leases.renew(runner)
    elif action == "time":
        site.later(rng.choice([10, 1_000, LEASE_MS // 2, LEASE_MS + 1]))
    elif action == "recover":
        await site.leases.recover(LOST, most=rng.randint(1, 5))
    elif action == "die" and runner:
        # What it had in hand it may still try to end, later: a pause, not a death.
        if rng.random() < 0.5:
            del model.held[runner]
    elif action == "cancel" and rng.random() < 0.3:
        jobs = await site.store.list("acme", limit=100)
        await site.store.cancel("acme", rng.choice(jobs).id)
