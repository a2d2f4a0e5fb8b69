"""The active scheduler stops, and dies, under load: every request is answered once, in order."""

import asyncio
import random
import signal
from pathlib import Path

import pytest

from tests.e2e.failover_site import (
    PLACES,
    Answer,
    Site,
    check_answers,
    failover_site,
    starts,
)
from tests.e2e.wait import until
from tests.gateway.harness import eventually
from tests.ratelimiter.valkey import Valkey, running_valkey

REQUESTS, PROMPT, OUTPUT = 40, 20, 40
ROUNDS = 20
# Starts of two workers are written down on two paths; places free up in between.
SLACK_S = 0.1
# Requests of one moment reach the scheduler through two gateways.
NEAR_S = 0.01


@pytest.mark.timeout(180)
async def test_a_stopped_and_a_killed_scheduler_under_load(tmp_path: Path) -> None:
    with running_valkey(tmp_path / "valkey") as server:
        async with failover_site(tmp_path, server.url) as site:
            await _stopped_under_load(site)
            await _killed_under_load(site)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_faults_of_schedulers_and_store_under_load(tmp_path: Path) -> None:
    """Each round one fault, at a random moment of the load, and sometimes a second at once."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with running_valkey(tmp_path / "valkey") as server:
        async with failover_site(tmp_path, server.url) as site:
            for _ in range(ROUNDS):
                load = await _full(site)
                await asyncio.sleep(dice.uniform(0, 0.5))
                for fault in dice.sample(range(5), dice.choice([1, 1, 2])):
                    await _fault(site, server, fault, dice)
                # A scheduler that stood still for a moment goes on with the gateway that is
                # back first.
                await _ends_well(site, load, in_order=False)


async def _fault(site: Site, server: Valkey, fault: int, dice: random.Random) -> None:
    active = await site.active()
    match fault:
        case 0:
            await active.kill()
            await site.restart(active)
        case 1:
            active.signal(signal.SIGSTOP)
            await asyncio.sleep(dice.uniform(0.1, 3))
            active.signal(signal.SIGCONT)
        case 2:
            server.pause()
            await asyncio.sleep(dice.uniform(0.1, 3))
            server.resume()
        case 3:
            await asyncio.to_thread(server.restart, empty=dice.random() < 0.5)
        case _:
            server.flush()


async def _stopped_under_load(site: Site) -> None:
    """Longer than its lease; then it goes on, and finds that it has been replaced."""
    load = await _full(site)
    old = await site.active()
    old.signal(signal.SIGSTOP)
    await eventually(lambda: _others(site, old.address))
    old.signal(signal.SIGCONT)
    await _ends_well(site, load)


async def _killed_under_load(site: Site) -> None:
    load = await _full(site)
    old = await site.active()
    await old.kill()
    await eventually(lambda: _others(site, old.address))
    await _ends_well(site, load)


async def _full(site: Site) -> list[asyncio.Task[Answer]]:
    """Requests of both gateways: every place is taken, and most wait."""
    load = []
    for number in range(REQUESTS):
        ask = site.ask(number, prompt=PROMPT, output=OUTPUT)
        load.append(asyncio.create_task(ask))
        await asyncio.sleep(0.002)
    await eventually(lambda: site.running() == 2 * PLACES)
    return load


async def _ends_well(
    site: Site, load: list[asyncio.Task[Answer]], *, in_order: bool = True
) -> None:
    answers = list(await asyncio.gather(*load))
    check_answers(answers, OUTPUT)
    if in_order:
        _in_order(answers)
    await site.at_rest()
    await until(site.attempts, lambda count: count == 0, "no attempt counted any more")


def _in_order(answers: list[Answer]) -> None:
    """Whoever began to be served had arrived before all that began later, but for slacks."""
    pairs = starts(answers)
    for at, (arrived, began) in enumerate(pairs):
        later = [a for a, b in pairs[at + 1 :] if b > began + SLACK_S]
        overtaken = [a for a in later if a < arrived - NEAR_S]
        assert overtaken == [], (arrived, began, overtaken)


def _others(site: Site, address: str) -> bool:
    """Both gateways have left it for another."""
    edges = [gateway.edge for gateway in site.gateways]
    return all(
        edge is not None and edge.scheduler.epoch and edge.scheduler.address != address
        for edge in edges
    )
