"""Edge cases of token accounts: hostile numbers, and bounds of the output.

All thirty, and where the others are: `test_case_list.py`.
"""

from pathlib import Path

import pytest

from tests.ratelimiter.account import (
    account,
    budget,
    context,
    directory,
    tpm,
)
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import InvalidField, LimitExceeded, Reason
from weir_core.errors.openai import to_http
from weir_ratelimiter.domain.usage import Usage

TPM = "tenant:acme/tpm"


HOSTILE = [
    float("nan"),
    float("inf"),
    -1,
    2**53,
    2**63,
    float("1e400"),
    True,
    "10",
    None,
    [0] * 100_000,
    0,
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:12])
async def test_09_and_10_hostile_numbers_and_sentinels(tmp_path: Path, value: object) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        with pytest.raises(InvalidField) as caught:
            await acct.reserve(prompt=value)  # type: ignore[arg-type]
        assert caught.value.field == "prompt_tokens"
        assert len(caught.value.message) < 300
        with pytest.raises(InvalidField, match="max_new_tokens"):
            await acct.reserve(output=value)  # type: ignore[arg-type]
        assert await acct.left(TPM) == 100
        assert (await acct.reserve()).reservation


async def test_09_hostile_usage_charges_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        await acct.reserve()
        for value in HOSTILE[:-1]:
            with pytest.raises(InvalidField, match=r"usage\.completion_tokens"):
                Usage.of(10, 0, value)
        with pytest.raises(InvalidField, match=r"at most usage\.prompt_tokens \(10\)"):
            Usage.of(10, 11, 1)
        assert await acct.left(TPM) == 70


async def test_09_the_largest_usage_of_all_stays_within_what_is_exact(tmp_path: Path) -> None:
    most = 2**53 - 1
    daily = budget(1_000, "daily", unit="day", resource=pb.LIMIT_RESOURCE_TOKENS)
    async with account(tmp_path, directory(tpm(1_000, refill=1), daily)) as acct:
        admissions = [await acct.reserve(f"r{number}") for number in range(3)]
        for admission in admissions:
            await acct.settle(admission.record, most, most)
        left = await acct.remaining()
        assert left == {TPM: -most, "tenant:acme/daily": 1_000 - most}


async def test_12_max_tokens_beyond_the_window_names_the_numbers(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(10**6), context(4096))) as acct:
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve(prompt=4000, output=10_000)
        assert caught.value.reason is Reason.CONTEXT_LENGTH_EXCEEDED
        assert "14000" in caught.value.message
        assert "4096" in caught.value.message
        assert caught.value.retry_after_s is None
        [violation] = caught.value.violations
        assert (violation.limit_type, violation.limit, violation.requested) == (
            "context",
            4096,
            14_000,
        )
        assert violation.reset_time_ms == 0


async def test_12_over_two_limits_every_field_is_of_the_one_that_gives_the_reason(
    tmp_path: Path,
) -> None:
    async with account(tmp_path, directory(tpm(1_000), plan=[context(4096)])) as acct:
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve(prompt=4000, output=10_000)
        assert {v.limit_type for v in caught.value.violations} == {"tpm", "context"}
        _, body, _ = to_http(caught.value)
        error = body["error"]
        assert (error["code"], error["limit_type"]) == ("context_length_exceeded", "context")
        assert (error["limit_id"], error["limit"]) == ("tenant:acme/context", 4096)
        assert str(error["knob"]).startswith("limit `context` of plan ")


async def test_12_an_estimate_is_capped_by_the_capacity(tmp_path: Path) -> None:
    policy = pb.Policy(reserve_policy=pb.RESERVE_POLICY_ESTIMATE)
    async with account(tmp_path, directory(tpm(512), policy=policy)) as acct:
        admission = await acct.reserve(prompt=12, output=4096)
        assert admission.reservation
        assert admission.reservation.output_tokens == 500
