"""The shared store comes back empty: budgets are what the ledger says, holds what records say."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry
from sqlalchemy import func, select

from tests.ratelimiter.race_directory import bucket, lease, window
from tests.ratelimiter.valkey import running_valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_core.clock import SystemClock
from weir_core.directory import DirectoryIndex
from weir_core.errors import LimitExceeded, WeirError
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.ledger.ledger import Ledger
from weir_ratelimiter.ledger.tables import rows
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

ACME = Subject("acme", "", "", "m", "")
BUDGET = 100
SNAPSHOT = pb.Snapshot(
    version=1,
    plans=[
        pb.Plan(
            id="plan",
            limits=[
                window("budget", BUDGET),
                bucket("rps", pb.LIMIT_RESOURCE_REQUESTS, 1_000),
                lease("parallel", 20),
            ],
        )
    ],
    tenants=[pb.Tenant(id="acme", plan_id="plan")],
    models=[pb.Model(name="m")],
)


class Replica:
    """A ratelimiter on the shared store, with the shared ledger."""

    def __init__(self, store: RedisStore, ledger: Ledger) -> None:
        clock = SystemClock()
        self.store = store
        self.ledger = ledger
        self.limiter = Limiter(
            store,
            RecordSigner(b"secret"),
            now_ms=clock.now_ms,
            default_ttl_ms=30_000,
            metrics=LimiterMetrics(CollectorRegistry()),
            budgets=ledger.budgets,
        )
        self.limiter.use(LimitBook(DirectoryIndex(SNAPSHOT)))

    async def reserve(self, name: str) -> bytes:
        return (await self.limiter.reserve(Ask(name, ACME, 1, 1))).record

    async def settle(self, record: bytes) -> None:
        await self.limiter.settle(record, Report(Usage(1, 0, 1), Quality.EXACT, 1))

    async def beat(self, record: bytes) -> None:
        extension = Extension(Usage(), 0, dispatched=True)
        await self.limiter.extend(self.limiter.read(record), extension)

    async def notices(self) -> None:
        """Sweep, until the store is back and known to have lost its state."""
        async with asyncio.timeout(20):
            while self.store.states_lost == 0:
                with contextlib.suppress(WeirError):
                    await self.limiter.sweep()
                await asyncio.sleep(0.02)

    async def until_refused(self, prefix: str) -> list[bytes]:
        records: list[bytes] = []
        while True:
            try:
                records.append(await self.reserve(f"{prefix}{len(records)}"))
            except LimitExceeded:
                return records
            await self.settle(records[-1])

    async def budget(self) -> tuple[int, int]:
        """What remains of it, and what is held."""
        states = await self.limiter.states(ACME)
        (state,) = [state for state in states if state.limit.key.endswith("/budget")]
        return state.remaining, state.held


async def charges(ledger: Ledger) -> int:
    """Rows of the ledger."""
    async with ledger.database.reading() as connection:
        return int(await connection.scalar(select(func.count()).select_from(rows)) or 0)


@asynccontextmanager
async def replica(url: str, ledger_file: Path) -> AsyncIterator[Replica]:
    clock = SystemClock()
    store = await RedisStore.open(url, RedisOptions(timeout_s=2))
    ledger = Ledger(
        f"sqlite:///{ledger_file}",
        b"secret",
        store,
        CollectorRegistry(),
        clock.now_ms,
    )
    try:
        await ledger.start()
        yield Replica(store, ledger)
    finally:
        await ledger.stop()
        await store.close()


async def test_a_budget_is_not_had_twice(tmp_path: Path) -> None:
    ledger_file = tmp_path / "ledger.db"
    with running_valkey(tmp_path / "valkey") as server:
        async with replica(server.url, ledger_file) as one, replica(server.url, ledger_file) as two:
            for number in range(30):
                settled = await one.reserve(f"settled{number}")
                await one.settle(settled)
            running = [await two.reserve(f"running{number}") for number in range(10)]
            assert await two.budget() == (60, 10)
            await one.ledger.pump.flush()

            server.restart(empty=True)
            for each in (one, two):
                await each.notices()
            # The first request has the budget read from the ledger. The gateways beat on: what
            # runs is held again.
            await two.settle(await two.reserve("first"))
            assert await two.budget() == (69, 0)
            for record in running:
                await one.beat(record)
            more = await two.until_refused("more")
            assert await one.budget() == (0, 10)
            assert len(more) == 59
            for record in running:
                await two.settle(record)
            assert await one.budget() == (0, 0)
            # A settlement is told again, to a store that does not know it: one row all the same.
            await one.settle(settled)
            await one.ledger.pump.flush()
            assert await charges(one.ledger) == BUDGET
