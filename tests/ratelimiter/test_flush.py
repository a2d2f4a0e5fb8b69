"""What any process has settled is in the ledger when it is asked, not seconds later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.ratelimiter.account import Account, account, budget, directory
from tests.ratelimiter.valkey import Valkey, ValkeyCluster
from weir.directory.v1 import directory_pb2 as pb
from weir_core.clock import SystemClock
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.ledger.filters import RowFilter
from weir_ratelimiter.ledger.ledger import Ledger
from weir_ratelimiter.ledger.reader import pages
from weir_ratelimiter.store.redis.opening import open_redis
from weir_ratelimiter.store.redis.options import RedisOptions

TOKENS = pb.LIMIT_RESOURCE_TOKENS
LIMITS = directory(
    budget(1_000, "own", resource=TOKENS), cluster=[budget(1_000, "all", resource=TOKENS)]
)
ACME, OTHER = Subject("acme", "bob", "key1", "m"), Subject("other", "bob", "key2", "m")


@dataclass
class Site:
    """A ratelimiter that settles, and the ledger of another one on the same server."""

    acct: Account
    ledger: Ledger

    async def settle(self, name: str, subject: Subject) -> None:
        admission = await self.acct.reserve(name, subject=subject)
        await self.acct.settle(admission.record, 10, 5)

    async def charged(self, subject: Subject, limit_id: str) -> int:
        """As the other one answers for the account."""
        limits = self.acct.limiter.book.resolve(subject).by_key
        limit = limits[limit_id]
        assert limit.calendar is not None
        window = limit.calendar.window(self.acct.now_ms())
        return await self.ledger.budgets.used(subject.tenant_id, limit, window)

    async def rows(self) -> set[str]:
        found = pages(self.ledger.database, RowFilter())
        return {row.request_id async for page in found for row in page}


@asynccontextmanager
async def site(tmp_path: Path, url: str) -> AsyncIterator[Site]:
    options, clock = RedisOptions(timeout_s=10), SystemClock()
    async with account(tmp_path / "journal", LIMITS) as acct:
        await acct.store.close()
        acct.now_ms = clock.now_ms  # type: ignore[method-assign]
        acct.store = await open_redis(url, options)  # type: ignore[assignment]
        acct.limiter = acct._limiter()
        await acct.use(LIMITS)
        other = await open_redis(url, options)
        file = f"sqlite:///{tmp_path}/ledger.sqlite"
        ledger = Ledger(file, b"secret", other, CollectorRegistry(), acct.now_ms)
        try:
            # It has looked at every shard, and would not again for seconds.
            await other.backlog()
            yield Site(acct, ledger)
        finally:
            await ledger.database.close()
            await other.close()


async def test_a_tenants_budget_counts_what_another_process_has_just_settled(
    tmp_path: Path, valkey: Valkey
) -> None:
    async with site(tmp_path, valkey.url) as here:
        for number in range(5):
            await here.settle(f"r{number}", ACME)
            assert await here.charged(ACME, "tenant:acme/own") == 15 * (number + 1)


async def test_a_budget_of_all_counts_what_any_process_has_just_settled(
    tmp_path: Path, valkey: Valkey
) -> None:
    async with site(tmp_path, valkey.url) as here:
        for number, subject in enumerate((ACME, OTHER, ACME)):
            await here.settle(f"r{number}", subject)
            assert await here.charged(subject, "cluster/all") == 15 * (number + 1)
        assert await here.rows() == {"r0", "r1", "r2"}


async def test_on_a_cluster_too(tmp_path: Path, valkey_cluster: ValkeyCluster) -> None:
    async with site(tmp_path, valkey_cluster.url) as here:
        for number, subject in enumerate((ACME, OTHER)):
            await here.settle(f"r{number}", subject)
            assert await here.charged(subject, "cluster/all") == 15 * (number + 1)


async def test_a_flush_for_one_tenant_looks_at_its_shard_alone(
    tmp_path: Path, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path, valkey.url) as here:
        await here.settle("r", OTHER)
        with valkey.client() as client:
            before = client.info("commandstats").get("cmdstat_xrevrange", {"calls": 0})["calls"]
            await here.ledger.pump.flush("acme")
            after = client.info("commandstats")["cmdstat_xrevrange"]["calls"]
        assert after - before == 2
        await here.ledger.pump.flush("other")
        assert await here.rows() == {"r"}


async def test_flushes_of_two_pumps_miss_nothing_under_load(tmp_path: Path, valkey: Valkey) -> None:
    async with site(tmp_path, valkey.url) as here:

        async def settle(number: int) -> None:
            subject = Subject(("acme", "other")[number % 2], "", "", "m")
            await here.settle(f"r{number}", subject)
            await here.ledger.pump.flush(subject.tenant_id if number % 3 else "")
            assert f"r{number}" in await here.rows()

        await asyncio.gather(*map(settle, range(30)))
