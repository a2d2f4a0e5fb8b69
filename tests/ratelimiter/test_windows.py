"""Budgets by day and month: hold, then charge, to the window in which it was reserved."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.ratelimiter.account import ACME, OK, Account, account, budget, directory, tpm
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_core.errors.openai import to_http
from weir_ratelimiter import seeding
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.store.memory_log import MemoryOptions

BUDGET, DAILY = "tenant:acme/budget", "tenant:acme/daily"
PRICE = pb.Price(input_nanos=3, cached_input_nanos=1, output_nanos=7)
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
# The clock of the tests starts on 2023-11-14 at 22:13:20 UTC.
TO_MIDNIGHT_MS = 6_400_000
OWE = pb.Policy(reserve_policy=pb.RESERVE_POLICY_ESTIMATE, extend_policy=pb.EXTEND_POLICY_DEBT)


def daily(capacity: int, **fields: Any) -> pb.Limit:
    return budget(capacity, "daily", unit="day", resource=pb.LIMIT_RESOURCE_TOKENS, **fields)


def money(capacity: int, **fields: Any) -> pb.Snapshot:
    return directory(budget(capacity, **fields), price=PRICE)


async def standing(acct: Account, key: str) -> tuple[int, int, str]:
    """What is free, what is held, and of which window."""
    states = {state.limit.key: state for state in await acct.limiter.states(ACME)}
    return states[key].remaining, states[key].held, states[key].window


async def test_a_budget_is_held_at_reserve_and_charged_at_settle(tmp_path: Path) -> None:
    async with account(tmp_path, money(1_000)) as acct:
        admission = await acct.reserve(prompt=10, output=20)
        assert await standing(acct, BUDGET) == (1_000 - 170, 170, "2023-11")
        await acct.settle(admission.record, 10, 5)
        assert await standing(acct, BUDGET) == (1_000 - 65, 0, "2023-11")
        [event] = await acct.events()
        assert event.amount_nanos == 65


async def test_a_budget_never_refills_within_its_window(tmp_path: Path) -> None:
    async with account(tmp_path, directory(daily(30))) as acct:
        first = await acct.reserve("a", prompt=10, output=20)
        await acct.settle(first.record, 10, 20)
        acct.advance(TO_MIDNIGHT_MS - 1)
        with pytest.raises(LimitExceeded):
            await acct.reserve("b", prompt=1, output=1)
        acct.advance(1)
        await acct.reserve("b", prompt=10, output=20)


async def test_an_exhausted_budget_says_when_the_next_window_begins(tmp_path: Path) -> None:
    async with account(tmp_path, money(2_500_000_000)) as acct:
        await acct.limiter.adjust("spent", ACME, BUDGET, -2_499_999_900, "spent elsewhere")
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve()
        refused = caught.value
        assert refused.reason is Reason.BUDGET_EXHAUSTED
        [violation] = refused.violations
        assert (violation.limit_type, violation.resource) == ("budget", "cost_per_month")
        assert (violation.limit, violation.used) == (2_500_000_000, 2_499_999_900)
        # 1 December 2023, UTC.
        assert violation.reset_time_ms == 1_701_388_800_000
        assert "allows 2.5 cost per month; 2.4999999 are used" in refused.message
        assert "the next window begins at 2023-12-01T00:00:00.000Z" in refused.message
        status, body, headers = to_http(refused)
        assert (status, body["error"]["code"]) == (429, "insufficient_quota")
        assert headers["x-should-retry"] == "false"
        assert "retry-after" not in headers


async def test_a_request_larger_than_its_budget_never_fits(tmp_path: Path) -> None:
    async with account(tmp_path, money(100)) as acct:
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve(prompt=10, output=20)
        assert caught.value.reason is Reason.REQUEST_TOO_LARGE
        assert caught.value.retry_after_s is None
        assert "never holds more than 0.0000001" in caught.value.message


async def test_an_estimate_is_capped_by_what_a_budget_can_ever_hold(tmp_path: Path) -> None:
    policy = pb.Policy(reserve_policy=pb.RESERVE_POLICY_ESTIMATE)
    limits = directory(budget(1_000), price=PRICE, policy=policy)
    async with account(tmp_path, limits) as acct:
        admission = await acct.reserve(prompt=10, output=4_000)
        assert admission.reservation
        # 970 nano-units beside the prompt, at 7 a token.
        assert admission.reservation.output_tokens == 138


async def test_cached_tokens_are_held_dear_and_charged_cheap(tmp_path: Path) -> None:
    async with account(tmp_path, money(1_000)) as acct:
        admission = await acct.reserve(prompt=10, output=20)
        report = Report(Usage(10, 8, 20), Quality.EXACT, OK)
        await acct.limiter.settle(admission.record, report)
        assert await standing(acct, BUDGET) == (1_000 - 2 * 3 - 8 * 1 - 20 * 7, 0, "2023-11")


async def test_a_model_without_a_price_costs_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, directory(budget(1))) as acct:
        admission = await acct.reserve()
        await acct.settle(admission.record, 10, 20)
        assert await standing(acct, BUDGET) == (1, 0, "2023-11")


async def test_the_price_of_the_reservation_holds_until_its_end(tmp_path: Path) -> None:
    async with account(tmp_path, money(1_000)) as acct:
        admission = await acct.reserve(prompt=10, output=20)
        dearer = pb.Price(input_nanos=30, cached_input_nanos=10, output_nanos=70)
        await acct.use(directory(budget(1_000), version=2, price=dearer))
        await acct.settle(admission.record, 10, 20)
        assert await standing(acct, BUDGET) == (830, 0, "2023-11")


async def test_07_a_settlement_after_midnight_belongs_to_the_day_before(tmp_path: Path) -> None:
    async with account(tmp_path, directory(daily(100))) as acct:
        acct.advance(TO_MIDNIGHT_MS - 1_000)
        refunded = await acct.reserve("a", prompt=10, output=20)
        settled = await acct.reserve("b", prompt=10, output=20)
        acct.advance(2_000)
        await acct.refund(refunded.record)
        await acct.settle(settled.record, 10, 40)
        assert await standing(acct, DAILY) == (100, 0, "2023-11-15")
        assert acct.log.state.windows[DAILY, "2023-11-14"].used == 50


async def test_an_extension_is_held_in_the_window_of_its_reservation(tmp_path: Path) -> None:
    limits = directory(daily(100), policy=pb.Policy(reserve_policy=pb.RESERVE_POLICY_ESTIMATE))
    async with account(tmp_path, limits) as acct:
        for number in range(20):
            brief = await acct.reserve(f"brief{number}", prompt=1, output=1)
            await acct.settle(brief.record, 1, 1)
        acct.advance(TO_MIDNIGHT_MS - 1_000)
        long = await acct.reserve("long", prompt=10, output=80)
        assert long.reservation
        assert long.reservation.output_tokens == 16
        acct.advance(2_000)
        assert not (await acct.extend(long.record, 16, more=10)).shortfalls
        refused = await acct.extend(long.record, 26, more=40)
        [short] = refused.shortfalls
        assert (short.limit.key, short.requested, short.wait_ms) == (DAILY, 40, 0)
        assert await standing(acct, DAILY) == (100, 0, "2023-11-15")
        assert acct.log.state.windows[DAILY, "2023-11-14"].held == 36


async def test_a_budget_is_overdrawn_only_as_far_as_it_is_said(tmp_path: Path) -> None:
    async def last_extension(path: Path, max_debt: int) -> bool:
        limits = directory(daily(60, max_debt=max_debt), policy=OWE)
        async with account(path, limits) as acct:
            # Likely is what fits, of the 80 that are possible.
            long = await acct.reserve("long", prompt=10, output=80)
            assert long.reservation
            assert long.reservation.output_tokens == 50
            extended = await acct.extend(long.record, 50, more=5)
            return extended.in_debt

    assert not await last_extension(tmp_path / "none", 0)
    assert await last_extension(tmp_path / "some", 10)


async def test_the_sweep_charges_the_window_by_progress(tmp_path: Path) -> None:
    async with account(tmp_path, directory(daily(100))) as acct:
        running = await acct.reserve("running", prompt=10, output=20)
        await acct.reserve("queued", prompt=10, output=20)
        await acct.extend(running.record, 7)
        acct.advance(30_000)
        await acct.limiter.sweep()
        assert await standing(acct, DAILY) == (83, 0, "2023-11-14")
        await acct.settle(running.record, 10, 20)
        assert await standing(acct, DAILY) == (70, 0, "2023-11-14")


async def test_a_shadow_budget_counts_and_refuses_nobody(tmp_path: Path) -> None:
    async with account(tmp_path, directory(daily(40, shadow=True))) as acct:
        await acct.reserve("a", prompt=10, output=20)
        await acct.reserve("b", prompt=10, output=20)
        assert await standing(acct, DAILY) == (10, 30, "2023-11-14")


async def test_a_budget_of_a_pair_of_tenant_and_model(tmp_path: Path) -> None:
    async with account(tmp_path, directory(daily(30, model="m"))) as acct:
        await acct.reserve("a")
        with pytest.raises(LimitExceeded):
            await acct.reserve("b")
        await acct.reserve("c", subject=Subject("acme", "bob", "key1", "n"))


async def test_budgets_of_all_layers_or_of_none(tmp_path: Path) -> None:
    limits = directory(
        daily(1_000), cluster=[daily(60)], user=[daily(100)], key=[daily(100)], model=[daily(100)]
    )
    async with account(tmp_path, limits) as acct:
        await acct.reserve("a")
        await acct.reserve("b", subject=Subject("other", "bob", "key2", "m"))
        before = acct.log.state.windows.copy()
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("c")
        assert {v.limit_id: v.used for v in caught.value.violations} == {"cluster/daily": None}
        assert acct.log.state.windows == before


async def test_windows_survive_a_crash_and_a_compaction(tmp_path: Path) -> None:
    limits = directory(daily(100))
    async with account(tmp_path, limits) as acct:
        first = await acct.reserve("a", prompt=10, output=20)
        await acct.settle(first.record, 10, 10)
        await acct.reserve("b", prompt=10, output=20)
        for _ in range(2):
            assert await standing(acct, DAILY) == (50, 30, "2023-11-14")
            await acct.restart(limits)


async def test_a_window_is_kept_for_late_settlements_and_then_forgotten(tmp_path: Path) -> None:
    options = MemoryOptions(horizon_ms=DAY_MS)
    async with account(tmp_path, directory(daily(100)), options) as acct:
        lapsed = await acct.reserve("a", prompt=10, output=20)
        acct.advance(40_000)
        await acct.limiter.sweep()
        acct.advance(DAY_MS - 60_000)
        await acct.log.compact(acct.now_ms())
        await acct.settle(lapsed.record, 10, 5)
        assert acct.log.state.windows[DAILY, "2023-11-14"].used == 15
        acct.advance(2 * DAY_MS)
        await acct.log.compact(acct.now_ms())
        assert (DAILY, "2023-11-14") not in acct.log.state.windows


async def test_a_charge_to_a_forgotten_window_is_in_the_ledger_alone(tmp_path: Path) -> None:
    options = MemoryOptions(horizon_ms=DAY_MS)
    async with account(tmp_path, directory(daily(100)), options) as acct:
        made = await acct.reserve("a", prompt=10, output=20)
        await acct.restart(directory(daily(100)), path=tmp_path / "lost")
        acct.advance(3 * DAY_MS)
        await acct.settle(made.record, 10, 90)
        [event] = await acct.events()
        assert event.charged.completion_tokens == 90
        assert await standing(acct, DAILY) == (100, 0, "2023-11-17")
        assert list(acct.log.state.windows) == [(DAILY, "2023-11-17")]


class Ledger:
    """A source of which a test says what it knows."""

    def __init__(self, used: int) -> None:
        self.known = used
        self.asked: list[tuple[str, str]] = []
        self.broken = False

    async def used(self, tenant_id: str, limit: Limit, window: Window) -> int:
        self.asked.append((limit.key, window.id))
        await asyncio.sleep(0)
        if self.broken:
            raise WeirError(Reason.LIMITER_UNAVAILABLE, "the ledger is away")
        return self.known


async def test_a_budget_counts_what_was_used_before_it_was_set(tmp_path: Path) -> None:
    ledger = Ledger(75)
    async with account(tmp_path, directory(tpm(1_000)), budgets=ledger) as acct:
        await acct.use(directory(daily(100), version=2))
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("a", prompt=10, output=20)
        assert caught.value.violations[0].used == 75
        await acct.reserve("b", prompt=10, output=15)
        assert ledger.asked == [(DAILY, "2023-11-14")]


async def test_an_empty_store_admits_no_second_budget(tmp_path: Path) -> None:
    ledger, limits = Ledger(0), directory(daily(100))
    async with account(tmp_path, limits, budgets=ledger) as acct:
        running = await acct.reserve("a", prompt=10, output=20)
        spent = await acct.reserve("b", prompt=10, output=20)
        await acct.settle(spent.record, 10, 50)
        ledger.known = 60
        await acct.restart(limits, path=tmp_path / "empty")
        with pytest.raises(LimitExceeded):
            await acct.reserve("c", prompt=10, output=31)
        await acct.extend(running.record, 5)
        assert await standing(acct, DAILY) == (10, 30, "2023-11-14")
        await acct.settle(running.record, 10, 20)
        assert await standing(acct, DAILY) == (10, 0, "2023-11-14")


async def test_what_runs_on_in_an_empty_store_is_charged_to_its_budget(tmp_path: Path) -> None:
    ledger, limits = Ledger(0), directory(daily(100))
    async with account(tmp_path, limits, budgets=ledger) as acct:
        running = await acct.reserve("a", prompt=10, output=20)
        ledger.known = 50
        await acct.restart(limits, path=tmp_path / "empty")
        # The window is not known yet: there is nothing to hold it in.
        await acct.extend(running.record, 5)
        assert await standing(acct, DAILY) == (50, 0, "2023-11-14")
        await acct.settle(running.record, 10, 20)
        assert await standing(acct, DAILY) == (20, 0, "2023-11-14")


async def test_budgets_fail_closed_while_the_ledger_cannot_be_read(tmp_path: Path) -> None:
    ledger = Ledger(0)
    ledger.broken = True
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        with pytest.raises(WeirError) as caught:
            await acct.reserve()
        assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
        assert "cannot be read from the ledger" in caught.value.message
        assert caught.value.retry_after_s is not None
        [state] = await acct.limiter.states(ACME)
        assert state.unseeded is not None
        ledger.broken = False
        await acct.reserve()


async def test_a_ledger_that_hangs_is_waited_for_in_vain_and_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging:
        async def used(self, tenant_id: str, limit: Limit, window: Window) -> int:
            await asyncio.Event().wait()
            return 0

    monkeypatch.setattr(seeding, "_DEADLINE_S", 0.01)
    async with account(tmp_path, directory(daily(100)), budgets=Hanging()) as acct:
        asked = [acct.reserve(f"r{number}") for number in range(8)]
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert {getattr(one, "reason", None) for one in refused} == {Reason.LIMITER_UNAVAILABLE}


async def test_many_who_begin_a_window_ask_the_ledger_once(tmp_path: Path) -> None:
    ledger = Ledger(40)
    async with account(tmp_path, directory(daily(100)), budgets=ledger) as acct:
        asked = [acct.reserve(f"r{number}", prompt=5, output=5) for number in range(16)]
        got = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(one, LimitExceeded) for one in got) == 10
        assert ledger.asked == [(DAILY, "2023-11-14")]


async def test_a_shadow_budget_does_not_wait_for_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(90)
    ledger.broken = True
    limits = directory(daily(100, shadow=True))
    async with account(tmp_path, limits, budgets=ledger) as acct:
        await acct.reserve()
        assert await standing(acct, DAILY) == (70, 30, "2023-11-14")


async def test_reserve_waits_for_a_ledger_that_is_far_behind(tmp_path: Path) -> None:
    async with account(tmp_path, directory(), MemoryOptions(most_events=2)) as acct:
        running = [await acct.reserve(f"r{number}") for number in range(3)]
        for admission in running[:2]:
            await acct.settle(admission.record, 10, 20)
        with pytest.raises(WeirError) as caught:
            await acct.reserve("late")
        assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
        assert "the ledger is 2 events behind" in caught.value.message
        assert caught.value.retry_after_s
        # What runs is settled all the same, and nothing is dropped.
        assert (await acct.reserve("r2")).replayed
        await acct.settle(running[2].record, 10, 20)
        backlog = await acct.store.backlog()
        assert (backlog.events, backlog.oldest_ms) == (3, acct.now_ms())
        await acct.store.acknowledge([entry.id for entry in await acct.store.outbox(2)])
        await acct.reserve("late")
