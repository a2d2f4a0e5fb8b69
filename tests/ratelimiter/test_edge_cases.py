"""Edge cases of token accounts: the life of a reservation, and what it is charged.

All thirty, and where the others are: `test_case_list.py`.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.ratelimiter.account import (
    ACME,
    Account,
    account,
    directory,
    hint,
    parallel,
    rpm,
    tpm,
)
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.usage import Quality

TPM = "tenant:acme/tpm"
RPM = "tenant:acme/rpm"
PARALLEL = "tenant:acme/parallel"


async def admitted(acct: Account, names: list[str], **ask: Any) -> list[str]:
    """Names of those that got in, all asking at once."""

    async def one(name: str) -> str | None:
        try:
            await acct.reserve(name, **ask)
        except LimitExceeded:
            return None
        return name

    return [name for name in await asyncio.gather(*map(one, names)) if name]


async def test_01_concurrent_reserves_on_capacity_for_one(tmp_path: Path) -> None:
    async with account(tmp_path, directory(parallel(1))) as acct:
        names = [f"r{i}" for i in range(64)]
        assert len(await admitted(acct, names)) == 1
        assert await acct.left(PARALLEL) == 0


async def test_01_tokens_admitted_never_exceed_the_capacity(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        names = [f"r{i}" for i in range(10)]
        assert len(await admitted(acct, names, prompt=10, output=20)) == 3
        assert await acct.left(TPM) == 10


async def test_03_reserve_and_settle_twice_in_parallel_charge_once(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(10))) as acct:
        first, second = await asyncio.gather(acct.reserve("r"), acct.reserve("r"))
        assert first.reservation == second.reservation
        assert {first.replayed, second.replayed} == {False, True}
        ends = await asyncio.gather(
            acct.settle(first.record, 10, 5), acct.settle(second.record, 10, 5)
        )
        assert sorted(end.already for end in ends) == [False, True]
        assert (await acct.left(TPM), await acct.left(RPM)) == (85, 9)


async def test_04_a_timeout_after_commit_and_a_retry_are_one_charge(tmp_path: Path) -> None:
    snapshot = directory(tpm(100))
    async with account(tmp_path, snapshot) as acct:
        lost_reply = await acct.reserve("r")
        await acct.restart(snapshot)
        again = await acct.reserve("r")
        assert again.replayed
        assert again.reservation == lost_reply.reservation
        assert await acct.left(TPM) == 70


async def test_05_settling_more_than_reserved_leaves_debt_in_all_layers(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(30), key=[tpm(30)])) as acct:
        admission = await acct.reserve(prompt=10, output=20)
        await acct.settle(admission.record, 10, 50)
        assert set((await acct.remaining()).values()) == {-30}
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("next", prompt=1, output=2)
        assert caught.value.reason is Reason.TOKEN_LIMIT_EXCEEDED
        # 33 units at 30 a minute.
        assert caught.value.retry_after_s == hint(66, "next")
        assert len(caught.value.violations) == 2
        assert {v.used for v in caught.value.violations} == {60}


async def test_06_settling_less_after_refill_to_full_stays_at_capacity(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        admission = await acct.reserve()
        acct.advance(20_000)
        assert await acct.left(TPM) == 100
        await acct.settle(admission.record, 10, 0)
        assert await acct.left(TPM) == 100


async def test_07_refund_long_after_its_window_is_no_credit(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(5))) as acct:
        old = await acct.reserve("old", prompt=40, output=40, ttl_ms=600_000)
        acct.advance(120_000)
        await acct.reserve("new", prompt=50, output=50)
        await acct.refund(old.record)
        # 80 come back, as they would have had they never been taken from this level.
        assert await acct.left(TPM) == 80
        acct.advance(60_000)
        assert await acct.left(TPM) == 100
        assert await acct.left(RPM) == 5


async def test_08_clock_jumps_neither_mint_nor_lock_out(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(60), parallel(1))) as acct:
        admission = await acct.reserve(prompt=30, output=30)
        await acct.settle(admission.record, 30, 30)
        acct.clock.jump_us(-3_600_000_000)
        with pytest.raises(LimitExceeded):
            await acct.reserve("early")
        assert await acct.left(TPM) == 0
        acct.advance(60_000)
        assert await acct.left(TPM) == 60
        acct.clock.jump_us(86_400_000_000)
        assert await acct.left(TPM) == 60


async def test_08_a_lease_outlives_no_jump(tmp_path: Path) -> None:
    async with account(tmp_path, directory(parallel(1))) as acct:
        await acct.reserve("dead")
        acct.clock.jump_us(-3_600_000_000)
        with pytest.raises(LimitExceeded):
            await acct.reserve("early")
        await acct.limiter.sweep()
        acct.advance(30_001)
        await acct.reserve("late")


async def test_18_a_zombie_gets_no_second_slot(tmp_path: Path) -> None:
    async with account(tmp_path, directory(parallel(1))) as acct:
        zombie = await acct.reserve("zombie")
        acct.advance(30_000)
        living = await acct.reserve("living")
        with pytest.raises(WeirError) as caught:
            await acct.extend(zombie.record, 3)
        assert caught.value.reason is Reason.RESERVATION_EXPIRED
        await acct.limiter.sweep()
        with pytest.raises(WeirError):
            await acct.extend(zombie.record, 4)
        assert await acct.left(PARALLEL) == 0
        late = await acct.settle(zombie.record, 10, 4)
        assert late.reservation.settlement
        assert late.reservation.settlement.late
        assert await acct.left(PARALLEL) == 0
        await acct.settle(living.record, 10, 1)
        assert await acct.left(PARALLEL) == 1


@pytest.mark.parametrize(
    ("sent", "tokens", "charged", "state"),
    [
        (False, 0, (0, 0), State.REFUNDED),
        (True, 0, (10, 0), State.SETTLED),
        (True, 1, (10, 1), State.SETTLED),
        (True, 20, (10, 20), State.SETTLED),
    ],
    ids=["before dispatch", "before the first byte", "after one token", "after the last"],
)
async def test_21_disconnects_charge_what_ran(
    tmp_path: Path, sent: bool, tokens: int, charged: tuple[int, int], state: State
) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(5), parallel(1))) as acct:
        admission = await acct.reserve()
        if sent:
            await acct.extend(admission.record, tokens)
        ended = await acct.refund(admission.record)
        assert ended.reservation.state is state
        settlement = ended.reservation.settlement
        assert settlement
        used = settlement.charged
        assert (used.prompt_tokens, used.completion_tokens) == charged
        assert settlement.quality is (Quality.ESTIMATED if sent else Quality.EXACT)
        assert await acct.remaining() == {
            TPM: 100 - sum(charged),
            RPM: 4 if sent else 5,
            PARALLEL: 1,
        }


async def test_21_disconnect_during_settle_settles_once(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        admission = await acct.reserve()
        first = await acct.settle(admission.record, 10, 7)
        again = await acct.settle(admission.record, 10, 7)
        other = await acct.settle(admission.record, 10, 9)
        assert (again.already, again.conflict) == (True, False)
        assert (other.already, other.conflict) == (True, True)
        assert first.reservation == again.reservation == other.reservation
        assert await acct.left(TPM) == 83


async def test_22_a_retry_on_another_worker_is_one_reservation(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(5))) as acct:
        admission = await acct.reserve()
        await acct.extend(admission.record, 0)
        await acct.extend(admission.record, 0)
        await acct.settle(admission.record, 10, 20)
        assert (await acct.left(TPM), await acct.left(RPM)) == (70, 4)


async def test_26_queue_wait_beyond_the_deadline_refunds_whole(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(5), parallel(1))) as acct:
        admission = await acct.reserve()
        acct.advance(1_000)
        await acct.extend(admission.record, 0, sent=False)
        ended = await acct.refund(admission.record)
        assert ended.reservation.state is State.REFUNDED
        assert await acct.remaining() == {TPM: 100, RPM: 5, PARALLEL: 1}
        again = await acct.refund(admission.record)
        assert again.already
        assert await acct.remaining() == {TPM: 100, RPM: 5, PARALLEL: 1}


async def test_27_a_preempted_request_resumes_without_a_second_request(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(5), parallel(1))) as acct:
        admission = await acct.reserve()
        await acct.extend(admission.record, 5, prompt=10)
        acct.advance(29_000)
        await acct.extend(admission.record, 5, prompt=10)
        acct.advance(29_000)
        await acct.extend(admission.record, 12, prompt=10)
        await acct.settle(admission.record, 10, 20)
        assert (await acct.left(RPM), await acct.left(PARALLEL)) == (5, 1)
        assert acct.log.state.next_sequence == 2


async def test_29_settled_and_held_are_debits_less_refunds(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(1000, refill=1))) as acct:
        admissions = [await acct.reserve(f"r{i}") for i in range(6)]
        await acct.settle(admissions[0].record, 10, 3)
        await acct.settle(admissions[1].record, 10, 90)
        await acct.refund(admissions[2].record)
        await acct.extend(admissions[3].record, 30)
        acct.advance(30_000)
        await acct.limiter.sweep()
        await acct.settle(admissions[4].record, 1, 1)
        [state] = [s for s in await acct.limiter.states(ACME) if s.limit.key == TPM]
        settled = 13 + 100 + 0 + 40 + 2 + 0
        assert state.held == 0
        assert 1000 - state.remaining == settled


async def test_24_a_batch_is_settled_line_by_line(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100, refill=1))) as acct:
        lines = [
            await acct.limiter.reserve(Ask(f"job/{number}", ACME, 10, 20, batch=True))
            for number in range(3)
        ]
        await acct.settle(lines[0].record, 10, 5)
        await acct.refund(lines[1].record)
        assert await acct.left(TPM) == 100 - 15 - 30
        await acct.settle(lines[2].record, 10, 20)
        charged = {e.request_id: e.charged.completion_tokens for e in await acct.events()}
        assert charged == {"job/0": 5, "job/1": 0, "job/2": 20}
