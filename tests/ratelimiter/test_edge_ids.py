"""Edge cases of token accounts: who asks, and under which id.

All thirty, and where the others are: `test_case_list.py`.
"""

from pathlib import Path

import pytest

from tests.ratelimiter.account import (
    ACME,
    account,
    directory,
    parallel,
    rpm,
    tpm,
)
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import InvalidField, LimitExceeded, Reason, WeirError
from weir_ratelimiter.domain.subject import Subject

TPM = "tenant:acme/tpm"


@pytest.mark.parametrize(
    "hostile",
    ["", "x" * 4096, "Am\u00e9lie", "Ame\u0301lie", "{x}", "a\r\nb", "a\0b", "a b", "\ud800", "а"],
)
async def test_14_hostile_ids_are_refused_by_name(tmp_path: Path, hostile: str) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        with pytest.raises(InvalidField, match=r"subject\.tenant_id"):
            await acct.reserve(subject=Subject(hostile, "bob", "key1", "m"))
        with pytest.raises(InvalidField, match="request_id"):
            await acct.reserve(hostile)
        if hostile:
            with pytest.raises(InvalidField, match=r"subject\.user_id"):
                await acct.reserve(subject=Subject("acme", hostile, "key1", "m"))
        assert await acct.left(TPM) == 100


async def test_14_ids_with_separators_never_share_a_key(tmp_path: Path) -> None:
    snapshot = pb.Snapshot(
        version=1,
        tenants=[pb.Tenant(id=name) for name in ("a", "a/b", "a:b", "c")],
        users=[
            pb.User(id="b/c", tenant_id="a", limits=[rpm(1)]),
            pb.User(id="c", tenant_id="a/b", limits=[rpm(1)]),
            pb.User(id="c", tenant_id="a:b", limits=[rpm(1)]),
            pb.User(id="b:c", tenant_id="a", limits=[rpm(1)]),
        ],
        models=[pb.Model(name="m")],
    )
    async with account(tmp_path, snapshot) as acct:
        pairs = [("a", "b/c"), ("a/b", "c"), ("a:b", "c"), ("a", "b:c")]
        admissions = [
            await acct.reserve("r:1", subject=Subject(tenant, user, "", "m"))
            if user != "b:c"
            else await acct.reserve("r:2", subject=Subject(tenant, user, "", "m"))
            for tenant, user in pairs
        ]
        ids = {admission.reservation.id for admission in admissions if admission.reservation}
        assert len(ids) == 4
        assert len(acct.log.state.buckets) == 4


async def test_15_same_user_id_under_two_tenants(tmp_path: Path) -> None:
    async with account(tmp_path, directory(user=[rpm(1)])) as acct:
        theirs = Subject("other", "bob", "key2", "m")
        await acct.reserve("r")
        await acct.reserve("r", subject=theirs)
        for subject in (ACME, theirs):
            with pytest.raises(LimitExceeded):
                await acct.reserve("again", subject=subject)


async def test_19_keys_are_bounded_by_the_directory_20_unknown_tenants_leave_no_trace(
    tmp_path: Path,
) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        size = acct.log.journal_bytes
        for number in range(200):
            with pytest.raises(WeirError) as caught:
                await acct.reserve("r", subject=Subject(f"t{number}", "u", "", "m"))
            assert caught.value.reason is Reason.NOT_FOUND
        assert acct.log.state.buckets == {}
        assert acct.log.journal_bytes == size


async def test_a_retry_after_the_end_is_no_free_admission(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        admission = await acct.reserve()
        await acct.settle(admission.record, 10, 20)
        with pytest.raises(WeirError) as caught:
            await acct.reserve()
        assert caught.value.reason is Reason.RESERVATION_CONFLICT
        await acct.reserve("lapsing")
        acct.advance(30_000)
        with pytest.raises(WeirError) as caught:
            await acct.reserve("lapsing")
        assert caught.value.reason is Reason.RESERVATION_EXPIRED


async def test_the_same_id_for_another_request_is_a_conflict(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(1000))) as acct:
        await acct.reserve("r", prompt=10)
        with pytest.raises(WeirError) as caught:
            await acct.reserve("r", prompt=11)
        assert caught.value.reason is Reason.RESERVATION_CONFLICT
        assert await acct.left(TPM) == 970


async def test_a_refused_request_may_be_retried_under_its_id(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(40))) as acct:
        await acct.reserve("first")
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("second")
        [short] = caught.value.violations
        assert short.reset_time_ms == acct.now_ms() + 30_000
        acct.advance(29_999)
        with pytest.raises(LimitExceeded):
            await acct.reserve("second")
        acct.advance(1)
        assert (await acct.reserve("second")).reservation


async def test_23_a_replay_takes_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(2), parallel(1))) as acct:
        first = await acct.reserve("r", prompt=10, output=20)
        before = await acct.remaining()
        for _ in range(5):
            again = await acct.reserve("r", prompt=10, output=20)
            assert again.replayed
            assert again.record == first.record
        assert await acct.remaining() == before
