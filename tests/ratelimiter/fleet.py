"""Clients in several processes, and what they saw together."""

import asyncio
import sys
from collections.abc import Sequence

import grpc
import msgspec

from tests.ratelimiter.process import LimiterProcess
from tests.ratelimiter.race import Orders, Race, Report, Who
from weir.common.v1.subject_pb2 import Subject
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest

PROCESSES, CLIENTS = 4, 16


async def run_fleet(
    races: Sequence[Race],
    token: str,
    *,
    addresses: Sequence[str] = (),
    store: str = "",
    directory: bytes = b"",
    processes: int = PROCESSES,
    clients: int = CLIENTS,
    seed: int = 1,
    timeout_s: float = 100.0,
) -> Report:
    """Has `clients` in each of `processes` run all races; returns their reports as one.

    They ask the ratelimiters at `addresses`, or limiters of their own on the shared `store`.

    Raises:
        TimeoutError: they did not come to an end.
        AssertionError: a process failed; the message is its last words.
    """
    orders = [
        Orders(
            token=token,
            member=member,
            clients=clients,
            races=races,
            seed=seed,
            addresses=addresses,
            store=store,
            directory=directory,
        )
        for member in range(processes)
    ]
    async with asyncio.timeout(timeout_s):
        return _joined(await asyncio.gather(*map(_run_member, orders)))


async def ready_for(process: LimiterProcess, races: Sequence[Race]) -> None:
    """Waits until a ratelimiter has the directory, and has read each budget from the ledger."""
    async with asyncio.timeout(60):
        for race in races:
            while not await _decides(process, race.who):
                await asyncio.sleep(0.05)


async def _decides(process: LimiterProcess, who: Who) -> bool:
    """Whether a request would be decided; it is only asked."""
    subject = Subject(tenant_id=who.tenant, user_id=who.user, api_key_id=who.key, model=who.model)
    request = ReserveRequest(
        request_id="asked", subject=subject, prompt_tokens=1, max_new_tokens=1, dry_run=True
    )
    try:
        await process.stub.Reserve(request, timeout=5)
    except grpc.aio.AioRpcError:
        return False
    return True


async def _run_member(orders: Orders) -> Report:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.ratelimiter.fleet_member",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, told = await process.communicate(msgspec.json.encode(orders))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, told.decode(errors="replace")[-2_000:]
    return msgspec.json.decode(out, type=Report)


def _joined(reports: Sequence[Report]) -> Report:
    whole = Report()
    for report in reports:
        whole.rows.extend(report.rows)
        whole.faults.extend(report.faults)
        whole.repeated += report.repeated
        for race, refused in report.refused.items():
            whole.refused[race] = whole.refused.get(race, 0) + refused
    return whole
