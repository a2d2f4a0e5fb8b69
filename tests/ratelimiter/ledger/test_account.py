"""Account and ledger together: after any history both say the same, and each heals the other."""

import asyncio
import contextlib
import random
import sys
from pathlib import Path

import pytest

from tests.ratelimiter.account import OK, directory
from tests.ratelimiter.ledger.billed import (
    BUDGETS,
    SUBJECTS,
    Billed,
    billed,
    budget,
    snapshot,
)
from tests.ratelimiter.ledger.support import Book, open_book
from tests.ratelimiter.valkey import Valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_ratelimiter.domain.limit import Kind
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.ledger.verification import differences


class History:
    """Random work; ended records are kept, to be settled late or again."""

    def __init__(self, account: Billed, seed: int) -> None:
        self._account = account
        self._random = random.Random(seed)
        self._open: list[bytes] = []
        self._ended: list[bytes] = []
        self._made = 0

    async def step(self) -> None:
        steps = (self.reserve, self.dispatch, self.settle, self.refund, self.again, self.grant)
        # A reservation may have lapsed by now, or ended so long ago that it is forgotten.
        with contextlib.suppress(WeirError):
            await self._random.choices(steps, (6, 4, 3, 2, 2, 1))[0]()
        self._account.advance(self._random.choice((0, 7, 400, 9_000, 3_000_000)))
        await self._account.limiter.sweep()

    async def reserve(self) -> None:
        self._made += 1
        admission = await self._account.reserve(
            f"r{self._made}",
            prompt=self._random.randint(1, 500),
            output=self._random.randint(1, 500),
            subject=self._random.choice(SUBJECTS),
        )
        self._open.append(admission.record)

    async def dispatch(self) -> None:
        if self._open:
            record = self._random.choice(self._open)
            await self._account.extend(record, self._random.randint(0, 90), prompt=5)

    async def settle(self) -> None:
        if self._open:
            await self._settle(self._open.pop(self._random.randrange(len(self._open))))

    async def refund(self) -> None:
        if self._open:
            record = self._open.pop(self._random.randrange(len(self._open)))
            await self._account.refund(record)
            self._ended.append(record)

    async def again(self) -> None:
        if self._ended:
            await self._settle(self._random.choice(self._ended))

    async def grant(self) -> None:
        self._made += 1
        subject = self._random.choice(SUBJECTS)
        states = await self._account.limiter.states(subject)
        chosen = self._random.choice([s.limit for s in states if s.limit.kind is Kind.WINDOW])
        units = self._random.randint(-400, 400)
        await self._account.limiter.adjust(f"adj{self._made}", subject, chosen.key, units, "")

    async def _settle(self, record: bytes) -> None:
        prompt = self._random.randint(0, 400)
        usage = Usage(prompt, self._random.randint(0, prompt), self._random.randint(0, 400))
        quality = self._random.choice((Quality.EXACT, Quality.ESTIMATED, Quality.UNKNOWN))
        report = Report(None if quality is Quality.UNKNOWN else usage, quality, OK)
        await self._account.limiter.settle(record, report)
        self._ended.append(record)


async def budgets_agree(account: Billed) -> int:
    """Compare every window of today in account and ledger; returns how many there were."""
    compared = 0
    for subject in SUBJECTS:
        for state in await account.limiter.states(subject):
            calendar = state.limit.calendar
            if calendar is None:
                continue
            window = calendar.window(account.now_ms())
            used = await account.ledger.budgets.used(subject.tenant_id, state.limit, window)
            assert state.limit.capacity - state.remaining - state.held == used, state.limit.key
            compared += 1
    return compared


@pytest.mark.parametrize("seed", range(2))
async def test_account_and_ledger_agree_after_any_history(
    tmp_path: Path, ledger_url: str, seed: int
) -> None:
    async with billed(tmp_path / "journal", ledger_url) as account:
        history = History(account, seed)
        for _ in range(3):
            for _ in range(50):
                await history.step()
            assert await budgets_agree(account) == BUDGETS
        account.advance(60_000)
        await account.limiter.sweep()
        assert await budgets_agree(account) == BUDGETS
        assert await differences(account.ledger.database) == []
        assert (await account.store.backlog()).events == 0


@pytest.mark.parametrize("seed", range(2))
async def test_they_agree_with_the_account_in_redis_too(
    tmp_path: Path, valkey: Valkey, seed: int
) -> None:
    async with billed(tmp_path / "journal", f"sqlite:///{tmp_path}/ledger.sqlite") as account:
        await account.move_to(valkey)
        history = History(account, seed)
        for _ in range(2):
            for _ in range(50):
                await history.step()
            assert await budgets_agree(account) == BUDGETS
        account.advance(60_000)
        await account.limiter.sweep()
        before = {subject: await account.remaining(subject) for subject in SUBJECTS}
        await account.ledger.pump.flush()
        assert (await account.store.backlog()).events == 0
        assert await differences(account.ledger.database) == []
        valkey.flush()
        for subject, remaining in before.items():
            assert await account.remaining(subject) == remaining


async def test_budgets_survive_a_store_that_lost_everything(
    tmp_path: Path, ledger_url: str
) -> None:
    async with billed(tmp_path / "one", ledger_url) as account:
        history = History(account, 7)
        for _ in range(80):
            await history.step()
        account.advance(60_000)
        await account.limiter.sweep()
        before = {subject: await account.remaining(subject) for subject in SUBJECTS}
        await account.ledger.pump.flush()
        await account.ledger.database.close()
        await account.restart(snapshot(), path=tmp_path / "two")
        for subject, remaining in before.items():
            assert await account.remaining(subject) == remaining
        assert await budgets_agree(account) == BUDGETS


async def test_a_new_budget_counts_what_was_used_before_it(tmp_path: Path, ledger_url: str) -> None:
    async with billed(tmp_path / "journal", ledger_url) as account:
        admission = await account.reserve("r", prompt=100, output=50)
        await account.settle(admission.record, 100, 50)
        tight = snapshot()
        tight.tenants[0].limits.append(budget("new", pb.LIMIT_RESOURCE_TOKENS, "month"))
        tight.tenants[0].limits[-1].capacity = 200
        await account.use(tight)
        with pytest.raises(LimitExceeded) as refused:
            await account.reserve("s", prompt=40, output=20)
        (violation,) = refused.value.violations
        assert (violation.limit_id, violation.used, violation.requested) == (
            "tenant:acme/new",
            150,
            60,
        )
        await account.reserve("t", prompt=40, output=10)


async def test_a_budget_of_an_unreadable_ledger_admits_nothing(tmp_path: Path) -> None:
    url = f"postgresql://weir@/none?host={tmp_path}"
    async with billed(tmp_path / "journal", url) as account:
        with pytest.raises(WeirError) as refused:
            await account.reserve("r")
        assert refused.value.reason is Reason.LIMITER_UNAVAILABLE
        # A model without budgets of its own, in a directory without any.
        await account.use(directory())
        admission = await account.reserve("s")
        await account.settle(admission.record, 10, 5)
        assert (await account.store.backlog()).events == 1


async def test_kill_9_at_any_moment_loses_and_doubles_no_charge(tmp_path: Path) -> None:
    await _kill_often(tmp_path, f"sqlite:///{tmp_path}/ledger.sqlite", 2)


@pytest.mark.soak
async def test_50_kills_lose_and_double_no_charge(tmp_path: Path, ledger_url: str) -> None:
    await _kill_often(tmp_path, ledger_url, 25)


async def _kill_often(tmp_path: Path, ledger_url: str, kills: int) -> None:
    journal = tmp_path / "journal"
    settled: set[str] = set()
    for number in range(kills):
        settled |= await _killed(journal, ledger_url, number)
    async with billed(journal, ledger_url) as account:
        await account.ledger.pump.flush()
    async with open_book(ledger_url) as book:
        charged = await _charged(book)
        assert len(charged) == len(set(charged))
        # A settlement whose answer the kill has cut off is charged, too.
        assert settled <= set(charged)
        assert len(charged) <= len(settled) + kills
        assert await differences(book.ledger.database) == []


async def _killed(journal: Path, url: str, number: int) -> set[str]:
    """Settle in a process of its own, kill -9 it after a while; returns what was answered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.ratelimiter.ledger.busy", str(journal), url, str(number * 10**6)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    wanted, answered = random.Random(number).randint(50, 400), list[bytes]()
    try:
        async with asyncio.timeout(60):
            while len(answered) < wanted:
                answered.append(await process.stdout.readline())
    finally:
        process.kill()
    answered += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    return {line.decode().strip() for line in answered if line.endswith(b"\n")}


async def _charged(book: Book) -> list[str]:
    return [row.request_id for row in await book.rows() if row.kind == 1]
