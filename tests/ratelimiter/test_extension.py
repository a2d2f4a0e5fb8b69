"""Extend: heartbeats, progress, more output, stop and bounded debt; reserving by estimate."""

from pathlib import Path

import pytest

from tests.ratelimiter.account import Account, account, directory, parallel, tpm
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.usage import Quality

TPM = "tenant:acme/tpm"
ESTIMATE = pb.Policy(reserve_policy=pb.RESERVE_POLICY_ESTIMATE)
ESTIMATE_AND_OWE = pb.Policy(
    reserve_policy=pb.RESERVE_POLICY_ESTIMATE, extend_policy=pb.EXTEND_POLICY_DEBT
)


async def teach(acct: Account, tokens: int) -> None:
    """Let the limiter see 20 answers of that length."""
    for number in range(20):
        admission = await acct.reserve(f"lesson{number}", prompt=1, output=tokens)
        await acct.settle(admission.record, 1, tokens)
        acct.advance(60_000)


async def test_a_heartbeat_keeps_the_lease_and_debits_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100, refill=1), parallel(1))) as acct:
        admission = await acct.reserve()
        for _ in range(5):
            acct.advance(29_999)
            extended = await acct.extend(admission.record, 3)
            assert extended.reservation.expires_ms == acct.now_ms() + 30_000
        await acct.limiter.sweep()
        assert await acct.left("tenant:acme/parallel") == 0
        assert await acct.left(TPM) == 72


async def test_an_estimate_is_extended_while_it_streams(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(1000), policy=ESTIMATE)) as acct:
        await teach(acct, 50)
        admission = await acct.reserve(prompt=100, output=400)
        assert admission.reservation
        assert admission.reservation.output_tokens == 50
        assert await acct.left(TPM) == 850
        for _ in range(2):
            extended = await acct.extend(admission.record, 40, more=64)
            assert extended.reservation.output_tokens == 104
            assert not extended.shortfalls
        assert await acct.left(TPM) == 1000 - 204
        await acct.settle(admission.record, 100, 90)
        assert await acct.left(TPM) == 1000 - 190


async def test_an_extension_never_goes_beyond_what_the_request_may_produce(
    tmp_path: Path,
) -> None:
    async with account(tmp_path, directory(tpm(1000), policy=ESTIMATE)) as acct:
        await teach(acct, 50)
        admission = await acct.reserve(prompt=100, output=120)
        extended = await acct.extend(admission.record, 100, more=5_000)
        assert extended.reservation.output_tokens == 120


async def test_an_extension_that_does_not_fit_stops_with_the_account_of_why(
    tmp_path: Path,
) -> None:
    async with account(tmp_path, directory(tpm(200), policy=ESTIMATE)) as acct:
        await teach(acct, 50)
        admission = await acct.reserve(prompt=100, output=400)
        refused = await acct.extend(admission.record, 50, more=64)
        [short] = refused.shortfalls
        assert (short.limit.key, short.requested, short.used) == (TPM, 64, 150)
        assert short.wait_ms == 4_200
        assert refused.reservation.output_tokens == 50
        assert refused.reservation.progress.completion_tokens == 50
        assert await acct.left(TPM) == 50
        acct.advance(4_200)
        granted = await acct.extend(admission.record, 50, more=64)
        assert not granted.shortfalls


async def test_debt_is_bounded_and_recorded(tmp_path: Path) -> None:
    snapshot = directory(tpm(200, max_debt=30), policy=ESTIMATE_AND_OWE)
    async with account(tmp_path, snapshot) as acct:
        await teach(acct, 50)
        admission = await acct.reserve(prompt=100, output=400)
        owing = await acct.extend(admission.record, 50, more=64)
        assert owing.in_debt
        assert owing.reservation.debt_tokens == 14
        assert await acct.left(TPM) == -14
        deeper = await acct.extend(admission.record, 114, more=17)
        assert [short.limit.key for short in deeper.shortfalls] == [TPM]
        last = await acct.extend(admission.record, 114, more=16)
        assert last.in_debt
        assert last.reservation.debt_tokens == 30
        assert await acct.left(TPM) == -30


async def test_output_that_ran_is_debited_without_asking(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(200), policy=ESTIMATE)) as acct:
        await teach(acct, 50)
        admission = await acct.reserve(prompt=100, output=400)
        extended = await acct.extend(admission.record, 180, more=10)
        assert extended.shortfalls
        assert extended.reservation.output_tokens == 180
        assert await acct.left(TPM) == -80


async def test_progress_only_grows(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        admission = await acct.reserve()
        await acct.extend(admission.record, 9, prompt=10)
        await acct.extend(admission.record, 4, prompt=3)
        ended = await acct.settle(admission.record, 0, 0, quality=Quality.UNKNOWN)
        settlement = ended.reservation.settlement
        assert settlement
        assert settlement.charged.completion_tokens == 9
        assert settlement.charged.prompt_tokens == 10
        assert settlement.quality is Quality.ESTIMATED


async def test_an_explicit_zero_is_a_count(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        admission = await acct.reserve()
        await acct.extend(admission.record, 0)
        await acct.settle(admission.record, 0, 0)
        assert await acct.left(TPM) == 100


async def test_an_ended_reservation_cannot_be_extended(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        admission = await acct.reserve()
        await acct.settle(admission.record, 10, 3)
        with pytest.raises(WeirError, match="settled already") as caught:
            await acct.extend(admission.record, 4)
        assert caught.value.reason is Reason.RESERVATION_EXPIRED


async def test_the_sweep_settles_orphans_by_their_progress(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(1000, refill=1), parallel(9))) as acct:
        queued = await acct.reserve("queued")
        running = await acct.reserve("running")
        await acct.extend(running.record, 7)
        alive = await acct.reserve("alive", ttl_ms=60_000)
        acct.advance(30_000)
        await acct.limiter.sweep()
        assert await acct.left("tenant:acme/parallel") == 8
        events = {event.request_id: event for event in await acct.events()}
        assert set(events) == {"queued", "running"}
        assert events["queued"].charged.prompt_tokens == 0
        assert (events["running"].charged.prompt_tokens, events["running"].outcome) == (10, 8)
        assert events["running"].charged.completion_tokens == 7
        assert await acct.left(TPM) == 1000 - 17 - 30
        late = await acct.settle(running.record, 10, 20)
        assert late.reservation.settlement
        assert late.reservation.settlement.late
        assert await acct.left(TPM) == 1000 - 30 - 30
        assert (await acct.settle(running.record, 10, 20)).already
        last = (await acct.events())[-1]
        assert (last.previous.completion_tokens, last.charged.completion_tokens) == (7, 20)
        await acct.refund(queued.record)
        await acct.settle(alive.record, 10, 20)
