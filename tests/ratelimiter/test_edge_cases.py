"""The edge cases of token accounts by name, as far as a memory store meets them.

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
    budget,
    context,
    directory,
    hint,
    limit,
    parallel,
    rpm,
    tpm,
)
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import InvalidField, LimitExceeded, Reason, WeirError
from weir_core.errors.openai import to_http
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.domain.limit import Layer
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.store.base import LimitState

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


async def test_02_a_layer_that_denies_leaves_the_others_untouched(tmp_path: Path) -> None:
    snapshot = directory(tpm(1000), rpm(10), parallel(5), key=[tpm(25)])
    async with account(tmp_path, snapshot) as acct:
        before = dict(acct.log.state.buckets), acct.log.journal_bytes, await acct.remaining()
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve(prompt=20, output=6)
        assert caught.value.reason is Reason.REQUEST_TOO_LARGE
        await acct.reserve("a", prompt=10, output=5)
        between = await acct.remaining()
        size = acct.log.journal_bytes
        with pytest.raises(LimitExceeded):
            await acct.reserve("b", prompt=10, output=5)
        assert await acct.remaining() == between
        assert acct.log.journal_bytes == size
        assert before[0] == {}
        assert before[2][TPM] - between[TPM] == 15


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


async def test_13_limit_lowered_below_use_raised_and_removed(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        first = await acct.reserve(prompt=40, output=40)
        await acct.use(directory(tpm(50), version=2))
        assert await acct.left(TPM) == 20
        await acct.use(directory(tpm(200), version=3))
        # Nothing touched it meanwhile: the raise is from the 100 that it was used under.
        assert await acct.left(TPM) == 120
        await acct.use(directory(version=4))
        await acct.settle(first.record, 40, 10)
        await acct.use(directory(tpm(200), version=5))
        assert await acct.left(TPM) == 150


async def test_13_a_shrunk_limit_takes_level_and_keeps_debt(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        first = await acct.reserve(prompt=50, output=50)
        await acct.settle(first.record, 50, 90)
        await acct.use(directory(tpm(10), version=2))
        assert await acct.left(TPM) == -40
        # 50 units at 10 a minute.
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("next", prompt=5, output=5)
        assert caught.value.retry_after_s == hint(300, "next")


async def test_13_kind_changed_in_flight(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100, "x"))) as acct:
        first = await acct.reserve()
        await acct.use(directory(parallel(1, "x"), version=2))
        second = await acct.reserve("second")
        with pytest.raises(LimitExceeded):
            await acct.reserve("third")
        await acct.settle(first.record, 10, 20)
        await acct.settle(second.record, 10, 20)
        assert await acct.left("tenant:acme/x") == 1


async def test_13_a_retry_keeps_its_reservation_when_the_limit_was_cut(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100))) as acct:
        first = await acct.reserve()
        await acct.use(directory(tpm(5), version=2))
        assert (await acct.reserve()).reservation == first.reservation
        with pytest.raises(LimitExceeded):
            await acct.reserve("other")


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


async def test_16_suspension_and_revocation_with_a_stream_open(tmp_path: Path) -> None:
    for closed, reason in (
        (directory(tpm(100), suspended=True, version=2), Reason.TENANT_SUSPENDED),
        (directory(tpm(100), revoked=True, version=2), Reason.API_KEY_REVOKED),
    ):
        async with account(tmp_path / reason, directory(tpm(100))) as acct:
            admission = await acct.reserve()
            acct.advance(20_000)
            await acct.use(closed)
            with pytest.raises(WeirError) as caught:
                await acct.extend(admission.record, 5, more=10)
            assert caught.value.reason is reason
            # It is still alive, so that what ran can be charged.
            acct.advance(20_000)
            await acct.limiter.sweep()
            ended = await acct.settle(admission.record, 10, 5)
            assert ended.reservation.state is State.SETTLED
            with pytest.raises(WeirError) as caught:
                await acct.reserve("new")
            assert caught.value.reason is reason


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


async def test_25_a_shadow_limit_counts_and_refuses_nobody(tmp_path: Path) -> None:
    snapshot = directory(tpm(50, shadow=True), rpm(5))
    async with account(tmp_path, snapshot) as acct:
        for name in ("a", "b", "c"):
            await acct.reserve(name)
        # The second and third would have been refused, and so took nothing from it.
        assert await acct.left(TPM) == 20
        assert await acct.left(RPM) == 2
        labels = {"tenant": "acme", "limit_type": "tpm", "layer": "tenant"}
        value = acct.registry.get_sample_value("weir_ratelimiter_shadow_refusals_total", labels)
        assert value == 2
        assert not acct.registry.get_sample_value("weir_ratelimiter_refusals_total", labels)


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


async def test_numbers_of_cluster_and_model_layers_stay_secret(tmp_path: Path) -> None:
    snapshot = directory(tpm(1000), cluster=[tpm(31)], model=[tpm(32)])
    async with account(tmp_path, snapshot) as acct:
        await acct.reserve("first", subject=Subject("other", "bob", "key2", "m"))
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("second", prompt=7, output=13)
        layers = {violation.layer: violation for violation in caught.value.violations}
        assert set(layers) == {Layer.CLUSTER.label, Layer.MODEL.label}
        for violation in layers.values():
            assert (violation.limit, violation.used) == (None, None)
            assert violation.requested == 20
            assert violation.reset_time_ms > acct.now_ms()
            assert violation.knob
        for number in ("31", "32", "30"):
            assert number not in caught.value.message.split("; retry in")[0]


async def test_a_limit_of_zero_is_a_closed_door(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(0))) as acct:
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve()
        assert caught.value.reason is Reason.PERMISSION_DENIED
        assert caught.value.retry_after_s is None


async def test_input_and_output_tokens_are_limited_apart(tmp_path: Path) -> None:
    itpm = limit("i", pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_INPUT_TOKENS, 100)
    otpm = limit("o", pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_OUTPUT_TOKENS, 50)
    async with account(tmp_path, directory(itpm, otpm)) as acct:
        admission = await acct.reserve(prompt=60, output=30)
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("second", prompt=50, output=20)
        assert [v.resource for v in caught.value.violations] == ["input_tokens"]
        await acct.settle(admission.record, 60, 10)
        assert await acct.remaining() == {"tenant:acme/i": 40, "tenant:acme/o": 40}


async def test_streams_are_counted_apart(tmp_path: Path) -> None:
    streams = limit("s", pb.LIMIT_KIND_LEASE, pb.LIMIT_RESOURCE_STREAMS, 1)
    async with account(tmp_path, directory(parallel(3), streams)) as acct:
        await acct.reserve("a", streams=True)
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("b", streams=True)
        assert [v.resource for v in caught.value.violations] == ["streams"]
        assert caught.value.reason is Reason.CONCURRENCY_LIMIT_EXCEEDED
        await acct.reserve("c")
        await acct.reserve("d")
        with pytest.raises(LimitExceeded):
            await acct.reserve("e")


async def test_a_limit_of_a_tenant_and_a_model_leaves_other_models_alone(tmp_path: Path) -> None:
    async with account(tmp_path, directory(rpm(1, "pair", model="m"))) as acct:
        await acct.reserve("a")
        with pytest.raises(LimitExceeded):
            await acct.reserve("b")
        await acct.reserve("c", subject=Subject("acme", "bob", "key1", "n"))


async def test_retry_after_is_the_longest_of_all_violations(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(30), rpm(1, refill=60))) as acct:
        await acct.reserve("a")
        with pytest.raises(LimitExceeded) as caught:
            await acct.reserve("b")
        waits = {v.limit_id: v.reset_time_ms - acct.now_ms() for v in caught.value.violations}
        assert waits == {TPM: 60_000, RPM: 1_000}
        assert caught.value.retry_after_s == hint(60, "b")
        assert caught.value.reason is Reason.TOKEN_LIMIT_EXCEEDED


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(30))) as acct:
        size = acct.log.journal_bytes
        admission = await acct.reserve(dry_run=True)
        assert admission.reservation is None
        await acct.reserve()
        with pytest.raises(LimitExceeded):
            await acct.reserve("b", dry_run=True)
        assert acct.log.journal_bytes > size
        states: list[LimitState] = list(await acct.limiter.states(ACME))
        assert [state.held for state in states] == [30]


async def test_13_a_plan_change_reaches_every_tenant_on_it(tmp_path: Path) -> None:
    def plan(capacity: int, version: int) -> pb.Snapshot:
        tenants = [pb.Tenant(id=f"t{number}", plan_id="p") for number in range(20)]
        plans = [pb.Plan(id="p", limits=[tpm(capacity)])]
        models = [pb.Model(name="m")]
        return pb.Snapshot(version=version, tenants=tenants, plans=plans, models=models)

    async with account(tmp_path, plan(100, 1)) as acct:
        people = [Subject(f"t{number}", "", "", "m") for number in range(20)]
        for who in people:
            await acct.reserve("r", subject=who)
        await acct.use(plan(150, 2))
        for who in people:
            assert await acct.left(f"tenant:{who.tenant_id}/tpm", who) == 120


async def test_23_a_replay_takes_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, directory(tpm(100), rpm(2), parallel(1))) as acct:
        first = await acct.reserve("r", prompt=10, output=20)
        before = await acct.remaining()
        for _ in range(5):
            again = await acct.reserve("r", prompt=10, output=20)
            assert again.replayed
            assert again.record == first.record
        assert await acct.remaining() == before


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
