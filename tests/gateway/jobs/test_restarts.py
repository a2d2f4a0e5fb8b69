"""Jobs while gateways come and go."""

import asyncio
from pathlib import Path

from sqlalchemy import delete, func, select

from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from tests.gateway.jobs.asking import submit, until
from tests.gateway.jobs.killing import sqlite_url
from weir_core.errors import Reason
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.jobs.store import JobStore
from weir_gateway.jobs.tables import runners


def store_of(gateway: Gateway) -> JobStore:
    assert gateway.app.edge is not None
    return gateway.app.edge._rooms.jobs.store


async def test_a_gateway_that_stops_gives_its_jobs_back_and_the_next_runs_them(
    tmp_path: Path,
) -> None:
    url = sqlite_url(tmp_path)
    async with running_gateway(tmp_path / "one", state_url=url) as first:
        first.worker.script = Script(pause_after=2)
        job = await submit(first)
        await eventually(lambda: first.worker.tokens == 2)
        key, document, limiter = first.key, first.document, first.limiter
    (account,) = limiter.accounts.values()
    assert account.refunds
    assert not account.settles

    def same_tenants(fresh: dict[str, object]) -> None:
        fresh["tenants"] = document["tenants"]

    async with running_gateway(tmp_path / "two", state_url=url, change=same_tenants) as second:
        second.http.headers["authorization"] = f"Bearer {key.secret}"
        ended = await until(second, job["id"])
        assert ended["status"] == "succeeded"
        assert ended["attempts"] == 2
        found = await store_of(second).get("acme", job["id"])
        # That it was given back on purpose is no failure.
        assert found.failures == 0
        (charged,) = second.limiter.accounts.values()
        assert charged.request.request_id == ended["request_id"]
        assert len(charged.settles) == 1


async def test_a_runner_that_lost_its_lease_gives_up_what_it_runs_and_goes_on_anew(
    tmp_path: Path,
) -> None:
    async with running_gateway(
        tmp_path, state_url=sqlite_url(tmp_path), job_lease_s=3.0, limiter_timeout_s=10.0
    ) as gateway:
        assert gateway.app.edge is not None
        gateway.worker.script = Script(pause_after=2)
        job = await submit(gateway)
        await eventually(lambda: gateway.worker.tokens == 2)
        # As another does that sees it as gone.
        async with gateway.app.edge.state.writing() as connection:
            await connection.execute(delete(runners))
        await eventually(lambda: gateway.worker.aborts)
        gateway.worker.resume.set()
        ended = await until(gateway, job["id"])
        assert ended["status"] == "succeeded"
        # On a busy machine its next lease may run out too.
        assert ended["attempts"] >= 2
        charged = [one for one in gateway.limiter.accounts.values() if one.settles]
        assert [one.request.request_id for one in charged] == [ended["request_id"]]
        await gateway.at_rest()
        # One that waits to be let in is given up as soon as it is.
        gateway.limiter.reserve_gate = asyncio.Event()
        job = await submit(gateway)
        await eventually(lambda: gateway.limiter.reserving)
        async with gateway.app.edge.state.writing() as connection:
            await connection.execute(delete(runners))
        async with asyncio.timeout(20):
            while not await _runners(gateway):
                await asyncio.sleep(0.01)
        gateway.limiter.reserve_gate.set()
        ended = await until(gateway, job["id"])
        assert ended["status"] == "succeeded"
        assert ended["attempts"] >= 2
        account = gateway.limiter.accounts[f"res_{job['id']}.1"]
        assert [one.error_reason for one in account.refunds] == [to_wire(Reason.DRAINING)]
        await gateway.at_rest()


async def _runners(gateway: Gateway) -> int:
    assert gateway.app.edge is not None
    async with gateway.app.edge.state.reading() as connection:
        count = select(func.count()).select_from(runners)
        return int((await connection.execute(count)).scalar_one())


async def test_many_jobs_of_one_tenant_do_not_hold_up_one_of_another(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, state_url=sqlite_url(tmp_path), jobs_at_once=4, tenant_jobs_at_once=3
    ) as gateway:
        gateway.worker.script = Script(pause_after=1)
        many = [await submit(gateway) for _ in range(12)]
        await eventually(lambda: gateway.worker.running == 3)
        other = await submit(gateway, secret=gateway.other_key.secret)
        await eventually(lambda: gateway.worker.running == 4)
        assert {spec.tenant_id for spec in gateway.worker.specs} == {"acme", "globex"}
        gateway.worker.resume.set()
        for job in many:
            assert (await until(gateway, job["id"]))["status"] == "succeeded"
        async with asyncio.timeout(10):
            while not (await store_of(gateway).get("globex", other["id"])).state.ended:
                await asyncio.sleep(0.01)
        await gateway.at_rest()


async def test_a_limit_of_concurrency_is_learnt_and_not_run_against(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, state_url=sqlite_url(tmp_path)) as gateway:
        gateway.limiter.concurrency = 3
        gateway.worker.script = Script(step_s=0.01)
        made = [await submit(gateway) for _ in range(24)]
        ended = [await until(gateway, job["id"], timeout_s=60) for job in made]
        assert {job["status"] for job in ended} == {"succeeded"}
        charged = [one for one in gateway.limiter.accounts.values() if one.settles]
        assert len(charged) == len(made)
        # What was begun at first was refused once or twice; then they came as there was room.
        assert sum(job["attempts"] for job in ended) < 3 * len(made)
        await gateway.at_rest()
