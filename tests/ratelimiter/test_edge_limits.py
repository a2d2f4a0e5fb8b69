"""Edge cases of token accounts: layers, kinds and changes of limits.

All thirty, and where the others are: `test_case_list.py`.
"""

from pathlib import Path

import pytest

from tests.ratelimiter.account import (
    ACME,
    account,
    directory,
    hint,
    limit,
    parallel,
    rpm,
    tpm,
)
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_ratelimiter.domain.limit import Layer
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.base import LimitState

TPM = "tenant:acme/tpm"
RPM = "tenant:acme/rpm"


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
