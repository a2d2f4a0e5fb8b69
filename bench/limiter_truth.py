"""64 clients in 4 processes: what they were granted, against what the account says of it.

The races, the fleet and the faults are those of the tests (`tests/ratelimiter`), which fail at
the first unit; here everything is counted to the end.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.limiter_deployment import say
from tests.ratelimiter.fleet import run_fleet
from tests.ratelimiter.lossy_proxy import LossyProxy, lossy_proxy
from tests.ratelimiter.race import Report, Row, held_for_ever, held_until_end, most_at_once
from tests.ratelimiter.race_check import rows_by_race
from tests.ratelimiter.race_directory import (
    Contest,
    directory_of,
    limits_of,
    spent_and_held,
    sums,
)
from tests.ratelimiter.test_parallel_store import FAULTS
from tests.ratelimiter.valkey import Valkey, running_valkey
from weir_ratelimiter.domain.limit import HELD, Limit, Resource
from weir_ratelimiter.store.base import LimitState, OutboxEntry
from weir_ratelimiter.store.redis.store import RedisStore

_TOKEN = "cluster-secret-of-the-benchmark"
_BATCHES_BETWEEN_FAULTS = 60


@dataclass
class Truth:
    """Differences, which should all be 0.

    Attributes:
        over_admitted: units that were surely taken beyond a limit at one moment, over all limits.
        lost_units: units by which levels differ from what the clients were charged.
        double_charges: charges that no client was to have.
        missing_charges: charges that a client was to have.
        broken_promises: answers that contradict an earlier one.
    """

    over_admitted: int = 0
    lost_units: int = 0
    double_charges: int = 0
    missing_charges: int = 0
    broken_promises: int = 0


async def truth_figures(folder: Path) -> dict[str, object]:
    """Races on one store that is killed, paused, flushed and cut off meanwhile."""
    contests = [*spent_and_held(), sums()]
    with running_valkey(folder, "--appendfsync", "always") as server:
        async with lossy_proxy(server.port) as proxy:
            racing = asyncio.create_task(_race(contests, proxy))
            happened = await _faults(racing, server, proxy)
            report = await racing
        store = await RedisStore.open(server.url)
        try:
            truth = await _compared(store, contests, report)
        finally:
            await store.close()
    say(f"{len(report.rows)} requests admitted, {report.repeated} calls repeated: {truth}")
    return {
        "over_admitted": truth.over_admitted,
        "lost_units": truth.lost_units,
        "double_charges": truth.double_charges,
        "missing_charges": truth.missing_charges,
        "broken_promises": truth.broken_promises,
        "races": {
            "admitted": len(report.rows),
            "calls_repeated": report.repeated,
            "faults": happened,
        },
    }


async def _race(contests: Sequence[Contest], proxy: LossyProxy) -> Report:
    return await run_fleet(
        [contest.race for contest in contests],
        _TOKEN,
        store=f"redis://127.0.0.1:{proxy.port}/0",
        directory=directory_of(contests).SerializeToString(),
    )


async def _faults(racing: asyncio.Task[Report], server: Valkey, proxy: LossyProxy) -> int:
    for happened, fault in enumerate(FAULTS):
        due = proxy.answers + _BATCHES_BETWEEN_FAULTS
        while proxy.answers < due:
            if racing.done():
                return happened
            await asyncio.sleep(0.005)
        await fault(server, proxy)
    return len(FAULTS)


async def _compared(store: RedisStore, contests: Sequence[Contest], report: Report) -> Truth:
    truth = Truth(broken_promises=len(report.faults))
    snapshot, by_race = directory_of(contests), rows_by_race(report)
    for contest in contests:
        who, rows = contest.race.who, by_race.get(contest.race.name, [])
        limits = limits_of(snapshot, who)
        truth.over_admitted += sum(_over(limit, contest, rows) for limit in limits)
        for state in await store.states(who.tenant, limits):
            truth.lost_units += _lost(state, rows)
    charged = Counter(map(_of_entry, await store.outbox(10**6)))
    expected = Counter(map(_of_row, report.rows))
    truth.double_charges = (charged - expected).total()
    truth.missing_charges = (expected - charged).total()
    return truth


def _over(limit: Limit, contest: Contest, rows: Sequence[Row]) -> int:
    held = held_until_end if limit.kind in HELD else held_for_ever
    return max(0, most_at_once(map(held, rows)) - contest.capacity)


def _lost(state: LimitState, rows: Sequence[Row]) -> int:
    limit = state.limit
    charged = 0
    if limit.kind not in HELD:
        charged = sum(_units(limit.resource, row) for row in rows)
    return abs(limit.capacity - charged - state.remaining) + abs(state.held)


def _units(resource: Resource, row: Row) -> int:
    match resource:
        case Resource.REQUESTS:
            return row.requests
        case Resource.TOKENS:
            return row.tokens
        case Resource.INPUT_TOKENS:
            return row.prompt
        case _:
            return row.completion


def _of_row(row: Row) -> tuple[str, int, int]:
    return row.reservation_id, row.prompt, row.completion


def _of_entry(entry: OutboxEntry) -> tuple[str, int, int]:
    charged, previous = entry.event.charged, entry.event.previous
    return (
        entry.event.reservation_id,
        charged.prompt_tokens - previous.prompt_tokens,
        charged.completion_tokens - previous.completion_tokens,
    )
