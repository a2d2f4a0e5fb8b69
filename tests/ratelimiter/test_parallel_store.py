"""64 clients in 4 processes on one Valkey: nothing over, lost or twice, whatever happens to it."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.ratelimiter.directory_server import directory_server
from tests.ratelimiter.exported import exported
from tests.ratelimiter.fleet import ready_for, run_fleet
from tests.ratelimiter.lossy_proxy import LossyProxy, lossy_proxy
from tests.ratelimiter.process import TOKEN, LimiterProcess, limiter_process
from tests.ratelimiter.race import STORE_TIMEOUT_S, Report
from tests.ratelimiter.race_check import (
    charged_once_each,
    every_level_is_exact,
    never_over,
    rows_by_race,
)
from tests.ratelimiter.race_directory import (
    Contest,
    directory_of,
    limits_of,
    spent_and_held,
    sums,
)
from tests.ratelimiter.valkey import Valkey, running_valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.ledger.row import row_of
from weir_ratelimiter.store.redis.store import RedisStore

pytestmark = pytest.mark.timeout(200)

Fault = Callable[[Valkey, LossyProxy], Awaitable[None]]


async def killed_and_restarted(server: Valkey, proxy: LossyProxy) -> None:
    server.kill()
    await asyncio.sleep(0.3)
    await asyncio.to_thread(server.start)


async def scripts_flushed(server: Valkey, proxy: LossyProxy) -> None:
    await asyncio.to_thread(server.flush_scripts)


async def paused_for_two_seconds(server: Valkey, proxy: LossyProxy) -> None:
    server.pause()
    try:
        await asyncio.sleep(2)
    finally:
        server.resume()


async def answers_lost(server: Valkey, proxy: LossyProxy) -> None:
    """Connections are cut after the commit and before the answer."""
    proxy.lose_answers(20)


async def requests_late(server: Valkey, proxy: LossyProxy) -> None:
    """Requests arrive when their callers have asked again, and may have been refused."""
    proxy.delay_requests(64, STORE_TIMEOUT_S + 0.5)


FAULTS: tuple[Fault, ...] = (
    requests_late,
    answers_lost,
    scripts_flushed,
    killed_and_restarted,
    paused_for_two_seconds,
)


async def test_64_clients_on_one_store(tmp_path: Path) -> None:
    await _race(tmp_path, [*spent_and_held(), sums()], seed=1, faults=FAULTS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
async def test_64_clients_on_one_store_again_and_again(tmp_path: Path, seed: int) -> None:
    await _race(tmp_path, [*spent_and_held(), sums()], seed=seed, faults=FAULTS * 2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
async def test_64_clients_at_four_ratelimiters_on_one_store(tmp_path: Path, seed: int) -> None:
    contests = [_without_windows(contest) for contest in [*spent_and_held(), sums()]]
    with running_valkey(tmp_path / "valkey") as server:
        async with _four_ratelimiters(tmp_path, contests, server) as ratelimiters:
            report = await run_fleet(
                [contest.race for contest in contests],
                TOKEN,
                addresses=[each.ready["grpc"] for each in ratelimiters],
                seed=seed,
            )
            # Each ratelimiter writes what it has seen of the outbox, and sees all of it in turns.
            async with asyncio.timeout(30):
                while len(ledger := await exported(ratelimiters[0].channel)) < len(report.rows):
                    await asyncio.sleep(0.2)
            charged_once_each(report.rows, ledger)
            assert report.faults == []
        async with _looked_at(server) as store:
            await _levels_are_exact(store, contests, report)


def _without_windows(contest: Contest) -> Contest:
    """Windows would wait for the ledger, which four processes share on one slow disk."""
    kept = [limit for limit in contest.limits if limit.kind != pb.LIMIT_KIND_WINDOW]
    return replace(contest, limits=kept)


@asynccontextmanager
async def _four_ratelimiters(
    folder: Path, contests: Sequence[Contest], server: Valkey
) -> AsyncIterator[list[LimiterProcess]]:
    """Real processes with one store and one ledger, which know the limits."""
    # On a slow machine, too, nobody may think that the store is away and decide on its share.
    shared = [f"--store={server.url}", "--store-timeout-s=2"]
    shared.append(f"--ledger-url=sqlite:///{folder / 'ledger.db'}")
    async with AsyncExitStack() as started, directory_server() as (served, address):
        await served.publish(directory_of(contests))
        processes = [
            await started.enter_async_context(
                limiter_process(folder / f"journal-{number}", address, *shared)
            )
            for number in range(4)
        ]
        for process in processes:
            await ready_for(process, [contest.race for contest in contests])
        yield processes


async def _race(
    folder: Path, contests: Sequence[Contest], *, seed: int, faults: Sequence[Fault]
) -> None:
    snapshot = directory_of(contests)
    # `always`: what was answered is in the file, whenever the server is killed.
    with running_valkey(folder / "valkey", "--appendfsync", "always") as server:
        async with lossy_proxy(server.port) as proxy:
            racing = asyncio.create_task(
                run_fleet(
                    [contest.race for contest in contests],
                    TOKEN,
                    store=f"redis://127.0.0.1:{proxy.port}/0",
                    directory=snapshot.SerializeToString(),
                    seed=seed,
                )
            )
            happened = await _let_happen(racing, server, proxy, faults, random.Random(seed))
            report = await racing
        async with _looked_at(server) as store:
            await _everything_is_exact(store, contests, report)
    assert happened == len(faults), "the clients were done before everything had happened"


async def _let_happen(
    racing: asyncio.Task[Report],
    server: Valkey,
    proxy: LossyProxy,
    faults: Sequence[Fault],
    dice: random.Random,
) -> int:
    """Has each fault after so many more batches of answers; returns how many happened."""
    for happened, fault in enumerate(faults):
        due = proxy.answers + dice.randint(30, 120)
        while proxy.answers < due:
            if racing.done():
                return happened
            await asyncio.sleep(0.005)
        await fault(server, proxy)
    return len(faults)


@asynccontextmanager
async def _looked_at(server: Valkey) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(server.url)
    try:
        yield store
    finally:
        await store.close()


async def _everything_is_exact(
    store: RedisStore, contests: Sequence[Contest], report: Report
) -> None:
    await _levels_are_exact(store, contests, report)
    charged_once_each(report.rows, await _ledger(store))


async def _levels_are_exact(store: RedisStore, contests: Sequence[Contest], report: Report) -> None:
    assert report.faults == []
    snapshot = directory_of(contests)
    by_race = rows_by_race(report)
    for contest in contests:
        rows = by_race[contest.race.name]
        limits = limits_of(snapshot, contest.race.who)
        never_over(contest, limits, rows)
        every_level_is_exact(await store.states(contest.race.who.tenant, limits), rows)


async def _ledger(store: RedisStore) -> list[Mapping[str, Any]]:
    """The rows that the events in the outbox would become."""
    rows = [row_of(entry.event, entry.id) for entry in await store.outbox(10**6)]
    return [
        {**msgspec.structs.asdict(row), "kind": EventKind(row.kind).name.lower()} for row in rows
    ]
