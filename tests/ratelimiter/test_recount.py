"""A window in which its limit changed is brought up to what the ledger has of it."""

from pathlib import Path

import pytest

from tests.ratelimiter.account import account, directory
from tests.ratelimiter.test_new_windows import refused, shared_account
from tests.ratelimiter.test_windows import DAILY, DAY_MS, TO_MIDNIGHT_MS, Ledger, daily, standing
from tests.ratelimiter.valkey import Valkey
from weir_core.errors import LimitExceeded

TODAY = "2023-11-14"
MINUTE_MS = 60_000


async def test_a_budget_put_back_counts_what_was_used_without_it(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        running = await acct.reserve("a", prompt=10, output=20)
        await acct.use(directory(version=2))
        ledger.known = 60
        await acct.use(directory(daily(100), version=3))
        assert await standing(acct, DAILY) == (100 - 60 - 30, 30, TODAY)
        with pytest.raises(LimitExceeded):
            await acct.reserve("b", prompt=1, output=10)
        await acct.settle(running.record, 10, 20)
        assert await standing(acct, DAILY) == (10, 0, TODAY)


async def test_the_same_in_redis(tmp_path: Path, valkey: Valkey) -> None:
    ledger = Ledger(0)
    limits = directory(daily(100))
    async with shared_account(tmp_path, valkey, ledger) as acct:
        running = await acct.reserve("a", prompt=10, output=20)
        await acct.use(directory(version=2))
        ledger.known = 60
        limits.version = 3
        await acct.use(limits)
        assert await standing(acct, DAILY) == (100 - 60 - 30, 30, TODAY)
        await acct.settle(running.record, 10, 20)
        assert await standing(acct, DAILY) == (20 - 10, 0, TODAY)


async def test_a_shadow_budget_that_becomes_a_real_one_counts_what_did_not_fit(
    tmp_path: Path,
) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, directory(daily(10, shadow=True)), budgets=ledger) as acct:
        await acct.reserve("a", prompt=10, output=20)
        ledger.known = 30
        await acct.use(directory(daily(100), version=2))
        assert await standing(acct, DAILY) == (70, 0, TODAY)


async def test_what_was_open_when_it_was_set_is_counted_within_a_minute(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, directory(), budgets=ledger) as acct:
        running = await acct.reserve("a", prompt=10, output=20)
        await acct.use(directory(daily(100), version=2))
        await acct.reserve("b", prompt=1, output=1)
        await acct.settle(running.record, 10, 20)
        ledger.known = 30
        assert await standing(acct, DAILY) == (98, 2, TODAY)
        acct.advance(MINUTE_MS)
        assert await standing(acct, DAILY) == (68, 2, TODAY)


async def test_the_ledger_lowers_nothing_and_is_asked_no_more_in_the_next_window(
    tmp_path: Path,
) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, directory(), budgets=ledger) as acct:
        await acct.use(directory(daily(100), version=2))
        admission = await acct.reserve("a", prompt=10, output=20)
        await acct.settle(admission.record, 10, 20)
        acct.advance(MINUTE_MS)
        assert await standing(acct, DAILY) == (70, 0, TODAY)
        acct.advance(TO_MIDNIGHT_MS)
        asked = len(ledger.asked)
        await acct.reserve("b")
        acct.advance(MINUTE_MS)
        await acct.reserve("c")
        assert len(ledger.asked) == asked
        acct.advance(DAY_MS)
        assert await standing(acct, DAILY) == (100, 0, "2023-11-16")


async def test_only_the_first_count_after_a_change_must_be_had(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        await acct.reserve("a")
        await acct.use(directory(version=2))
        await acct.use(directory(daily(100), version=3))
        ledger.broken = True
        await refused(acct)
        ledger.broken = False
        await acct.reserve("b")
        ledger.broken = True
        acct.advance(MINUTE_MS)
        await acct.reserve("c")


async def test_a_change_while_no_ratelimiter_ran_is_counted_at_its_start(tmp_path: Path) -> None:
    """The budget was out of the directory, and charged to, while this process was down."""
    ledger = Ledger(0)
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        running = await acct.reserve("a", prompt=10, output=20)
        await acct.settle(running.record, 10, 20)
    ledger.known = 60
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        assert await standing(acct, DAILY) == (40, 0, TODAY)
        # What was open then may end within the longest life of a lease.
        ledger.known = 70
        acct.advance(MINUTE_MS)
        assert await standing(acct, DAILY) == (30, 0, TODAY)
        acct.advance(20 * MINUTE_MS)
        asked = len(ledger.asked)
        await acct.reserve("b", prompt=1, output=1)
        assert len(ledger.asked) == asked


async def test_a_start_without_the_ledger_goes_on_from_what_the_store_has(tmp_path: Path) -> None:
    ledger = Ledger(0)
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        await acct.reserve("a", prompt=10, output=20)
    ledger.broken = True
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        await acct.reserve("b", prompt=10, output=20)
        assert await standing(acct, DAILY) == (40, 60, TODAY)
        asked = len(ledger.asked)
        await acct.reserve("c", prompt=1, output=1)
        assert len(ledger.asked) == asked
