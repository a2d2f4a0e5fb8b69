"""A window that begins while everything is in order starts with 0; any other asks the ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.ratelimiter.account import Account, account, budget, directory
from tests.ratelimiter.degraded.site import replica, site
from tests.ratelimiter.test_windows import (
    DAILY,
    DAY_MS,
    TO_MIDNIGHT_MS,
    Ledger,
    daily,
    standing,
)
from tests.ratelimiter.valkey import Valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

TODAY, TOMORROW = "2023-11-14", "2023-11-15"
LIMITS = directory(daily(100))


@asynccontextmanager
async def broken_at_midnight(path: Path, ledger: Ledger) -> AsyncIterator[Account]:
    """An account that served today; the ledger cannot be read any more."""
    async with account(path, LIMITS, budgets=ledger) as acct:
        await acct.reserve("today")
        ledger.broken = True
        yield acct


@asynccontextmanager
async def shared_account(path: Path, valkey: Valkey, ledger: Ledger) -> AsyncIterator[Account]:
    """An account in Redis."""
    async with account(path, LIMITS, budgets=ledger) as acct:
        await acct.store.close()
        options = RedisOptions(timeout_s=10)
        acct.store = await RedisStore.open(  # type: ignore[assignment]
            valkey.url, options, forced_ms=acct.now_ms
        )
        acct.limiter = acct._limiter()
        await acct.use(LIMITS)
        yield acct


async def refused(acct: Account, name: str = "r") -> None:
    with pytest.raises(WeirError) as caught:
        await acct.reserve(name)
    assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
    assert "cannot be read from the ledger" in caught.value.message


async def test_a_new_day_admits_without_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with broken_at_midnight(tmp_path, ledger) as acct:
        for day in range(1, 4):
            acct.advance(TO_MIDNIGHT_MS if day == 1 else DAY_MS)
            await acct.reserve(f"day{day}")
            assert await standing(acct, DAILY) == (70, 30, f"2023-11-{14 + day}")
        assert ledger.asked == [(DAILY, TODAY)]


async def test_a_new_capacity_changes_nothing(tmp_path: Path) -> None:
    async with broken_at_midnight(tmp_path, Ledger(0)) as acct:
        acct.advance(TO_MIDNIGHT_MS)
        await acct.use(directory(daily(50), version=2))
        await acct.reserve("tomorrow")
        assert await standing(acct, DAILY) == (20, 30, TOMORROW)


async def test_a_budget_set_within_a_window_asks_the_ledger_of_it_alone(tmp_path: Path) -> None:
    ledger = Ledger(75)
    async with account(tmp_path, directory(), budgets=ledger) as acct:
        acct.advance(TO_MIDNIGHT_MS + 1)
        await acct.use(directory(daily(200), version=2))
        await acct.reserve("r")
        assert ledger.asked == [(DAILY, TOMORROW)]
        assert await standing(acct, DAILY) == (95, 30, TOMORROW)
        acct.advance(DAY_MS)
        await acct.reserve("s")
        assert ledger.asked == [(DAILY, TOMORROW)]


async def test_a_budget_set_just_before_a_window_asks_the_ledger(tmp_path: Path) -> None:
    async with account(tmp_path, directory(), budgets=(ledger := Ledger(0))) as acct:
        acct.advance(TO_MIDNIGHT_MS - 59_999)
        await acct.use(directory(daily(100), version=2))
        acct.advance(60_000)
        await acct.reserve("r")
        assert ledger.asked == [(DAILY, TOMORROW)]


async def test_a_budget_removed_and_set_again_asks_the_ledger(tmp_path: Path) -> None:
    async with broken_at_midnight(tmp_path, Ledger(0)) as acct:
        acct.advance(TO_MIDNIGHT_MS - 1)
        await acct.use(directory(version=2))
        acct.advance(10_000)
        await acct.use(directory(daily(100), version=3))
        await refused(acct)


async def test_a_budget_that_counts_something_else_asks_the_ledger(tmp_path: Path) -> None:
    async with broken_at_midnight(tmp_path, Ledger(0)) as acct:
        acct.advance(TO_MIDNIGHT_MS + 1)
        monthly = budget(100, "daily", unit="month", resource=pb.LIMIT_RESOURCE_TOKENS)
        await acct.use(directory(monthly, version=2))
        await refused(acct)


def planned(plan_id: str, *own: pb.Limit, version: int) -> pb.Snapshot:
    snapshot = directory(*own, version=version)
    snapshot.plans.extend(pb.Plan(id=name, limits=[daily(100)]) for name in ("one", "two"))
    snapshot.tenants[0].plan_id = plan_id
    return snapshot


async def test_a_tenant_that_changes_its_plan_asks_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, planned("one", version=1), budgets=ledger) as acct:
        await acct.reserve("r")
        acct.advance(TO_MIDNIGHT_MS)
        await acct.use(planned("two", version=2))
        await acct.reserve("s")
        assert ledger.asked == [(DAILY, TODAY), (DAILY, TOMORROW)]
        acct.advance(DAY_MS)
        await acct.reserve("t")
        assert len(ledger.asked) == 2


async def test_a_plans_budget_that_is_in_force_again_asks_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(0)
    own = budget(100, "daily", unit="month", resource=pb.LIMIT_RESOURCE_TOKENS)
    async with account(tmp_path, planned("one", own, version=1), budgets=ledger) as acct:
        acct.advance(TO_MIDNIGHT_MS + 1)
        await acct.use(planned("one", version=2))
        await acct.reserve("r")
        assert ledger.asked == [(DAILY, TOMORROW)]


async def test_a_process_that_starts_within_a_window_asks_the_ledger(tmp_path: Path) -> None:
    async with broken_at_midnight(tmp_path / "one", Ledger(0)) as acct:
        acct.advance(TO_MIDNIGHT_MS + 1)
        await acct.restart(LIMITS)
        await refused(acct)


async def test_a_clock_that_went_back_asks_the_ledger(tmp_path: Path) -> None:
    async with broken_at_midnight(tmp_path, Ledger(0)) as acct:
        acct.advance(TO_MIDNIGHT_MS + DAY_MS)
        await acct.limiter.sweep()
        acct.clock.jump_us((1_000 - DAY_MS) * 1_000)
        await refused(acct)


async def test_another_state_of_the_store_asks_the_ledger(tmp_path: Path, valkey: Valkey) -> None:
    async with shared_account(tmp_path, valkey, ledger := Ledger(0)) as acct:
        await acct.reserve("today")
        ledger.broken = True
        acct.advance(TO_MIDNIGHT_MS)
        await acct.reserve("tomorrow")
        valkey.flush()
        # Nobody has noticed yet: the store is asked before anything begins with 0.
        await refused(acct, "lost")
        acct.advance(DAY_MS)
        await acct.reserve("day_after")


async def test_degraded_across_midnight_asks_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with site(tmp_path, LIMITS) as shared, replica(shared, budgets=ledger) as acct:
        await acct.reserve("today")
        shared.advance(TO_MIDNIGHT_MS - 90_000)
        shared.outage.refuses = True
        with pytest.raises(WeirError):
            await acct.reserve("away")
        assert acct.limiter.degraded
        await acct.limiter.sweep()
        shared.advance(90_000)
        await acct.come_back()
        await acct.limiter.sweep()
        ledger.broken = True
        await refused(acct)
        shared.advance(DAY_MS)
        await acct.reserve("day_after")


async def test_what_was_admitted_on_a_share_in_a_new_window_asks_the_ledger(
    tmp_path: Path,
) -> None:
    limits, ledger = directory(daily(100_000)), Ledger(0)
    async with site(tmp_path, limits) as shared, replica(shared, budgets=ledger) as acct:
        await acct.reserve("today")
        shared.advance(TO_MIDNIGHT_MS)
        # One call that is lost: the process decides it alone, and is not degraded for it.
        shared.outage.hangs = True
        admission = await acct.reserve("alone")
        shared.outage.hangs = False
        assert admission.degraded
        assert not acct.limiter.degraded
        await acct.reserve("s")
        assert ledger.asked == [(DAILY, TODAY), (DAILY, TOMORROW)]
