"""Tokens of the requests in the system: held from Reserve, grown by Extend, freed at the end."""

from pathlib import Path

import pytest

from tests.ratelimiter.account import ACME, account, directory, in_flight, parallel, tpm
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import InvalidField, LimitExceeded, Reason
from weir_core.errors.openai import to_http
from weir_ratelimiter.domain.usage import Quality

KEY = "tenant:acme/in_flight"
ESTIMATE = pb.Policy(reserve_policy=pb.RESERVE_POLICY_ESTIMATE)
ESTIMATE_AND_OWE = pb.Policy(
    reserve_policy=pb.RESERVE_POLICY_ESTIMATE, extend_policy=pb.EXTEND_POLICY_DEBT
)


async def test_a_request_holds_prompt_and_output_until_it_ends(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(100))) as acct:
        settled = await acct.reserve("a", prompt=10, output=20)
        refunded = await acct.reserve("b", prompt=30, output=20)
        assert await acct.left(KEY) == 20
        await acct.settle(settled.record, 10, 3)
        assert await acct.left(KEY) == 50
        await acct.refund(refunded.record)
        assert await acct.left(KEY) == 100
        await acct.settle(refunded.record, 30, 20)
        assert await acct.left(KEY) == 100


async def test_the_refusal_names_limit_numbers_and_knob(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(100), parallel(9))) as acct:
        first = await acct.reserve("a", prompt=40, output=40)
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("b", prompt=10, output=20)
        assert caught.value.reason is Reason.CONCURRENCY_LIMIT_EXCEEDED
        (violation,) = caught.value.violations
        assert (violation.limit_type, violation.resource) == ("concurrency", "in_flight_tokens")
        assert (violation.limit, violation.used, violation.requested) == (100, 80, 30)
        told = f"{KEY} allows 100 tokens in flight; 80 are used and 30 requested"
        assert told in str(caught.value)
        status, body, headers = to_http(caught.value)
        assert (status, body["error"]["code"]) == (429, "concurrency_limit_exceeded")
        assert (body["error"]["resource"], body["error"]["unit"]) == ("in_flight_tokens", "tokens")
        assert headers["retry-after"] in ("1", "2")
        await acct.settle(first.record, 40, 1)
        await acct.reserve("b", prompt=10, output=20)


async def test_a_request_larger_than_the_limit_never_fits(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(100))) as acct:
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve(prompt=60, output=41)
        assert caught.value.reason is Reason.REQUEST_TOO_LARGE
        assert caught.value.retry_after_s is None


async def test_an_estimate_grows_with_the_answer_until_nothing_is_left(tmp_path: Path) -> None:
    snapshot = directory(in_flight(200), policy=ESTIMATE)
    async with account(tmp_path, snapshot) as acct:
        for number in range(20):
            lesson = await acct.reserve(f"lesson{number}", prompt=1, output=50)
            await acct.settle(lesson.record, 1, 50)
        running = await acct.reserve("running", prompt=60, output=140)
        assert await acct.left(KEY) == 200 - 110
        await acct.extend(running.record, 50, more=40)
        assert await acct.left(KEY) == 200 - 150
        other = await acct.reserve("other", prompt=1, output=20)
        stopped = await acct.extend(running.record, 90, more=40)
        (short,) = stopped.shortfalls
        assert (short.limit.key, short.requested, short.used) == (KEY, 40, 171)
        await acct.settle(other.record, 1, 1)
        assert not (await acct.extend(running.record, 90, more=40)).shortfalls


async def test_what_a_stream_owes_is_bounded_and_gone_at_its_end(tmp_path: Path) -> None:
    snapshot = directory(in_flight(100, max_debt=10), policy=ESTIMATE_AND_OWE)
    async with account(tmp_path, snapshot) as acct:
        for number in range(20):
            lesson = await acct.reserve(f"lesson{number}", prompt=1, output=16)
            await acct.settle(lesson.record, 1, 16)
        running = await acct.reserve("running", prompt=84, output=100)
        owing = await acct.extend(running.record, 16, more=10)
        assert owing.in_debt
        assert await acct.left(KEY) == -10
        assert (await acct.extend(running.record, 26, more=1)).shortfalls
        await acct.settle(running.record, 84, 26)
        assert await acct.left(KEY) == 100


async def test_what_nobody_ends_is_freed_by_the_sweep(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(100))) as acct:
        running = await acct.reserve("running")
        await acct.reserve("queued")
        await acct.extend(running.record, 30)
        assert await acct.left(KEY) == 100 - 40 - 30
        acct.advance(30_000)
        await acct.limiter.sweep()
        assert await acct.left(KEY) == 100
        await acct.settle(running.record, 10, 30)
        assert await acct.left(KEY) == 100


async def test_a_restart_and_a_lost_state_keep_what_runs(tmp_path: Path) -> None:
    snapshot = directory(in_flight(100), tpm(1000))
    async with account(tmp_path / "a", snapshot) as acct:
        running = await acct.reserve()
        await acct.restart(snapshot)
        assert await acct.left(KEY) == 70
        await acct.restart(snapshot, path=tmp_path / "b")
        assert await acct.left(KEY) == 100
        await acct.extend(running.record, 5)
        assert await acct.left(KEY) == 70
        await acct.settle(running.record, 10, 5)
        assert await acct.left(KEY) == 100


async def test_a_limit_that_comes_later_counts_what_is_admitted_from_then_on(
    tmp_path: Path,
) -> None:
    async with account(tmp_path, directory()) as acct:
        before = await acct.reserve("before")
        await acct.use(directory(in_flight(100), version=2))
        after = await acct.reserve("after")
        assert await acct.left(KEY) == 70
        await acct.settle(before.record, 10, 20)
        assert await acct.left(KEY) == 70
        await acct.use(directory(version=3))
        await acct.settle(after.record, 10, 20)
        await acct.use(directory(in_flight(100), version=4))
        assert await acct.left(KEY) == 100


async def test_every_layer_and_the_plan_may_have_one(tmp_path: Path) -> None:
    snapshot = directory(
        cluster=[in_flight(500)],
        plan=[in_flight(400)],
        user=[in_flight(300)],
        key=[in_flight(200)],
        model=[in_flight(450)],
    )
    async with account(tmp_path, snapshot) as acct:
        await acct.reserve(prompt=10, output=20)
        assert set((await acct.remaining()).values()) == {470, 370, 270, 170, 420}
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("b", prompt=100, output=71)
        assert [v.layer for v in caught.value.violations] == ["api_key"]


async def test_a_shadow_refuses_nobody(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(40, shadow=True))) as acct:
        for number in range(3):
            await acct.reserve(f"r{number}")
        assert await acct.left(KEY) == 10


async def test_units_of_it_cannot_be_given(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(100))) as acct:
        with pytest.raises(InvalidField, match="a bucket or a window"):
            await acct.limiter.adjust("a", ACME, KEY, 5, "why")


async def test_a_settlement_that_nobody_counted_frees_all_of_it(tmp_path: Path) -> None:
    async with account(tmp_path, directory(in_flight(100))) as acct:
        running = await acct.reserve()
        await acct.settle(running.record, 0, 0, quality=Quality.UNKNOWN)
        assert await acct.left(KEY) == 100
