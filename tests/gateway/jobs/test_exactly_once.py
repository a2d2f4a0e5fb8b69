"""One result and one charge, wherever the process that runs a job is killed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.gateway.fake_limiter import Account
from tests.gateway.harness import Gateway, running_gateway
from tests.gateway.jobs.killing import KilledAt, MortalState, sqlite_url
from tests.gateway.jobs.making import a_job
from tests.ratelimiter.postgres import Postgres
from weir_core.clock import SystemClock
from weir_core.errors import Reason, WeirError
from weir_gateway.jobs.attempt import AttemptParts, JobAttempt
from weir_gateway.jobs.charges import JobCharges
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.kinds.openai_kind import OpenAiKind
from weir_gateway.jobs.leases import JobLeases, LeaseBounds
from weir_gateway.jobs.outcome import Again
from weir_gateway.jobs.store import JobStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOST = Again(WeirError(Reason.WORKER_LOST, "gone"), 0, failed=True)
MOST_WAITS = 400


class LateClock(SystemClock):
    """The machine's clock, and what was added to it."""

    def __init__(self) -> None:
        self.added_us = 0

    def now_us(self) -> int:
        return super().now_us() + self.added_us


class Process:
    """What one gateway process has of jobs."""

    def __init__(self, gateway: Gateway, url: str, clock: LateClock) -> None:
        edge = gateway.app.edge
        assert edge is not None
        self.state, self.told = MortalState(url), [0]
        ends, kinds = JobEnds(), JobKinds()
        ends.listen(self._on_end)
        kinds.register("chat", OpenAiKind(chat=True))
        self.store = JobStore(self.state, ends, clock, retention_ms=10**9)
        self.leases = JobLeases(self.state, ends, clock, LeaseBounds())
        self.charges = JobCharges(self.state, edge._limiter, edge._views.metrics, clock)
        self.parts = AttemptParts(
            reception=edge._reception,
            kinds=kinds,
            leases=self.leases,
            charges=self.charges,
            clock=clock,
            longest_s=60,
            write_s=5,
        )

    async def run_one(self, runner_id: str) -> None:
        for job in await self.leases.claim(runner_id, "acme", 1):
            await JobAttempt(job, runner_id, self.parts).run()

    async def recover(self, runner_id: str) -> None:
        """What every process does beside its own jobs."""
        await self.leases.recover(LOST)
        await self.run_one(runner_id)
        for charge in await self.charges.take_due():
            assert await self.charges.make(charge)

    async def _on_end(self, _: AsyncConnection, job: Job) -> None:
        self.told[0] += 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres
) -> AsyncIterator[Gateway]:
    # The server is started first: a process is not to be forked beside gRPC's threads.
    async with running_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


# Every wait on one database, every second on the other, which has more of them.
@pytest.mark.parametrize(("kind", "step"), [("sqlite", 1), ("postgresql", 2)])
async def test_a_job_has_one_result_and_one_charge_wherever_its_process_is_killed(
    gateway: Gateway, kind: str, step: int, tmp_path: Path, postgres_server: Postgres
) -> None:
    url = sqlite_url(tmp_path)
    if kind == "postgresql":
        url = await postgres_server.new_database()
    clock = LateClock()
    heir = Process(gateway, url, clock)
    first_charged = late_charged = repeated = 0
    try:
        for number in range(1, MOST_WAITS, step):
            job, killed = await _killed_at(gateway, heir, url, clock, number)
            charged, attempts = _charges_of(gateway, job)
            found = await heir.store.get("acme", job.id)
            assert found.state is JobState.SUCCEEDED, f"killed at wait {number}"
            assert heir.parts.kinds.of("chat").text(found.result) == "t0 t1 t2 t3 "
            assert [account.request.request_id for account in charged] == [found.request_id]
            for settle in charged[0].settles:
                assert settle.usage == found.usage
            first_charged += found.attempt == 1 and not charged[0].refunds
            late_charged += bool(charged[0].refunds)
            repeated += attempts > 1
            if not killed:
                break
        else:
            pytest.fail("it never came to its end")
    finally:
        await heir.state.close()
    # It was killed before the result, between result and charge, and after both.
    assert min(repeated, late_charged, first_charged) > 0


async def _killed_at(
    gateway: Gateway, heir: Process, url: str, clock: LateClock, number: int
) -> tuple[Job, bool]:
    """Runs a job in a process that is killed at a wait; another does the rest."""
    edge = gateway.app.edge
    assert edge is not None
    job = a_job(clock, api_key_id=gateway.key.id)
    async with heir.state.writing() as connection:
        await heir.store.add_many(connection, [job])
    mortal = Process(gateway, url, clock)
    await mortal.leases.join(f"mortal-{number}")
    life = KilledAt(mortal.run_one(f"mortal-{number}"), number)
    task = asyncio.ensure_future(_await(life))
    dying = asyncio.ensure_future(life.killed.wait())
    await asyncio.wait({task, dying}, return_when=asyncio.FIRST_COMPLETED)
    killed = life.killed.is_set()
    if killed:
        await mortal.state.kill()
    # Its leases lapse: that of the runner, and that of the reservation, which the sweep refunds.
    for live in edge.records:
        assert live.keeping is not None
        live.keeping.decide(gives_back=True)
    await _no_open_accounts(gateway)
    clock.added_us += 60_000_000
    await heir.leases.join(f"heir-{number}")
    while True:
        await heir.recover(f"heir-{number}")
        if (await heir.store.get("acme", job.id)).state.ended:
            break
        await asyncio.sleep(0)
    clock.added_us += 60_000_000
    await heir.recover(f"heir-{number}")
    await heir.leases.leave(f"heir-{number}")
    assert mortal.told[0] + heir.told[0] >= 1
    heir.told[0] = 0
    task.cancel()
    dying.cancel()
    await asyncio.wait({task, dying})
    if not killed:
        await mortal.state.close()
    return job, killed


async def _await(life: KilledAt) -> None:
    await life


async def _no_open_accounts(gateway: Gateway) -> None:
    """What lapsed was swept; a settlement that was on its way came."""
    edge = gateway.app.edge
    assert edge is not None
    async with asyncio.timeout(10):
        while edge.records or gateway.limiter.open_accounts:
            for live in edge.records:
                if live.keeping is not None:
                    live.keeping.decide(gives_back=True)
            await asyncio.sleep(0.001)


def _charges_of(gateway: Gateway, job: Job) -> tuple[list[Account], int]:
    """Accounts that a job's attempts were charged to, and how many attempts were admitted."""
    accounts = [
        account
        for account in gateway.limiter.accounts.values()
        if account.request.request_id.startswith(f"{job.id}.")
    ]
    return [account for account in accounts if account.settles], len(accounts)
