"""Clients in several processes, and what they saw together."""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from tests.ratelimiter.race import Orders, Race, Report

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
