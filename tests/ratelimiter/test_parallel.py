"""64 clients in 4 processes at one ratelimiter: never one unit over, none lost, none twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ratelimiter.directory_server import directory_server
from tests.ratelimiter.exported import exported
from tests.ratelimiter.fleet import ready_for, run_fleet
from tests.ratelimiter.process import TOKEN, limiter_process
from tests.ratelimiter.race import Report, Row
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
from weir_core.clock import SystemClock
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions

pytestmark = pytest.mark.timeout(200)


async def test_64_clients_in_4_processes(tmp_path: Path) -> None:
    await _race(tmp_path, [*spent_and_held(), sums()], seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
async def test_64_clients_in_4_processes_again_and_again(tmp_path: Path, seed: int) -> None:
    await _race(tmp_path, [*spent_and_held(), sums()], seed=seed)


async def _race(folder: Path, contests: Sequence[Contest], *, seed: int) -> None:
    snapshot = directory_of(contests)
    async with directory_server() as (served, address):
        await served.publish(snapshot)
        async with limiter_process(folder / "journal", address) as process:
            races = [contest.race for contest in contests]
            await ready_for(process, races)
            report = await run_fleet(races, TOKEN, addresses=[process.ready["grpc"]], seed=seed)
            charged_once_each(report.rows, await exported(process.channel))
            assert await process.terminate() == 0
    await _everything_is_exact(folder / "journal", contests, report)


async def _everything_is_exact(journal: Path, contests: Sequence[Contest], report: Report) -> None:
    assert report.faults == []
    assert report.repeated == 0
    snapshot, clock = directory_of(contests), SystemClock()
    log = MemoryLog.open(journal, MemoryOptions(), clock.now_ms())
    store = MemoryStore(log, clock.now_ms)
    try:
        by_race = rows_by_race(report)
        for contest in contests:
            rows = by_race[contest.race.name]
            who = contest.race.who
            limits = limits_of(snapshot, who)
            never_over(contest, limits, rows)
            every_level_is_exact(await store.states(who.tenant, limits), rows)
            _all_could_be_had(contest, rows, report)
    finally:
        await store.close()


def _all_could_be_had(contest: Contest, rows: Sequence[Row], report: Report) -> None:
    """More asked than there are units: whoever was refused met a limit that was full."""
    if contest.race.name in report.refused:
        assert len(rows) >= contest.capacity
