"""The service over real gRPC: what callers get, in good times and bad."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from tests.ratelimiter.account import Account, context, directory, hint, parallel, rpm, tpm
from weir.common.v1 import error_reason_pb2
from weir.common.v1.lifecycle_pb2 import OUTCOME_CANCELLED, OUTCOME_OK, LifecycleRecord
from weir.common.v1.subject_pb2 import DELIVERY_MODE_STREAM, Subject
from weir.common.v1.usage_pb2 import (
    USAGE_QUALITY_ESTIMATED,
    USAGE_QUALITY_EXACT,
    USAGE_QUALITY_UNKNOWN,
    Usage,
)
from weir.directory.v1 import directory_pb2
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import (
    RateLimiterServiceStub,
    add_RateLimiterServiceServicer_to_server,
)
from weir_core.errors import InvalidField, LimitExceeded, Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter.servicer import RateLimiterServicer
from weir_ratelimiter.store.memory_log import MemoryOptions

TOKEN = SecretStr("cluster")
ACME = Subject(tenant_id="acme", user_id="bob", api_key_id="key1", model="m")
OTHER = Subject(tenant_id="other", user_id="bob", api_key_id="key2", model="m")
SNAPSHOT = directory(tpm(100), rpm(20), parallel(5), cluster=[tpm(10_000)])


@dataclass
class Service:
    """A served account."""

    account: Account
    address: str
    channel: ServiceChannel

    @property
    def stub(self) -> Any:
        return RateLimiterServiceStub(self.channel)

    async def reserve(self, request_id: str = "r", **fields: Any) -> pb.ReserveResponse:
        reply = await self.stub.Reserve(ask(request_id, **fields))
        assert isinstance(reply, pb.ReserveResponse)
        return reply


def ask(request_id: str = "r", **fields: Any) -> pb.ReserveRequest:
    given: dict[str, Any] = {"subject": ACME, "prompt_tokens": 10, "max_new_tokens": 20} | fields
    return pb.ReserveRequest(request_id=request_id, **given)


def settled(record: bytes, prompt: int = 10, completion: int = 5) -> pb.SettleRequest:
    usage = Usage(prompt_tokens=prompt, completion_tokens=completion)
    return pb.SettleRequest(
        record=record, usage=usage, usage_quality=USAGE_QUALITY_EXACT, outcome=OUTCOME_OK
    )


@asynccontextmanager
async def service(
    path: Path, snapshot: directory_pb2.Snapshot | None = SNAPSHOT
) -> AsyncIterator[Service]:
    acct = Account(path, MemoryOptions())
    if snapshot is not None:
        await acct.use(snapshot)
    server = create_server(
        interceptors=default_interceptors(
            tracing=Tracing("test"), registry=CollectorRegistry(), tokens=[TOKEN]
        )
    )
    servicer = RateLimiterServicer(acct.limiter, acct.now_ms, Tracing("test"))
    add_RateLimiterServiceServicer_to_server(servicer, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        async with open_channel(address, name="ratelimiter", token=TOKEN) as channel:
            yield Service(acct, address, channel)
    finally:
        await server.stop(0)
        await acct.store.close()


async def refusal(call: Any) -> WeirError:
    """What a call was refused with, as the caller's own code would see it."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)


async def test_64_concurrent_reserves_on_capacity_1_admit_exactly_one(tmp_path: Path) -> None:
    async with service(tmp_path, directory(parallel(1))) as served:
        channels = [open_channel(served.address, name="ratelimiter", token=TOKEN) for _ in range(8)]
        stubs = [RateLimiterServiceStub(channel) for channel in channels]
        outcomes = await asyncio.gather(
            *(stubs[i % 8].Reserve(ask(f"r{i}")) for i in range(64)), return_exceptions=True
        )
        won = [reply for reply in outcomes if isinstance(reply, pb.ReserveResponse)]
        lost = [error for error in outcomes if isinstance(error, grpc.aio.AioRpcError)]
        assert (len(won), len(lost)) == (1, 63)
        assert {error.code() for error in lost} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        await served.stub.Settle(settled(won[0].record))
        assert (await served.reserve("next")).reservation_id
        for channel in channels:
            await channel.close()


async def test_a_request_from_reserve_to_settle(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        reply = await served.reserve(mode=DELIVERY_MODE_STREAM)
        assert (reply.reserved_prompt_tokens, reply.reserved_output_tokens) == (10, 20)
        assert reply.limiter_mode == pb.LIMITER_MODE_ENFORCED
        assert reply.expire_time.ToMilliseconds() == served.account.now_ms() + 30_000
        limits = {status.limit_id: status for status in reply.limits}
        own = limits["tenant:acme/tpm"]
        assert (own.limit, own.remaining, own.held, own.layer) == (100, 70, 30, "tenant")
        assert own.reset_time.ToMilliseconds() == served.account.now_ms() + 18_000
        secret = limits["cluster/tpm"]
        assert not secret.HasField("limit")
        assert not secret.HasField("remaining")
        assert not secret.HasField("held")
        assert not secret.HasField("reset_time")
        assert (await served.reserve(mode=DELIVERY_MODE_STREAM)).replayed
        news = pb.Extension(
            record=reply.record,
            output_tokens=3,
            prompt_tokens=10,
            dispatched=True,
            ttl=Duration(seconds=60),
            lifecycle=LifecycleRecord(request_id="r", worker_id="w1"),
        )
        [result] = (await served.stub.Extend(pb.ExtendRequest(extensions=[news]))).results
        assert result.granted
        assert result.expire_time.ToMilliseconds() == served.account.now_ms() + 60_000
        first = await served.stub.Settle(settled(reply.record))
        assert first.settlement.state == pb.RESERVATION_STATE_SETTLED
        assert first.settlement.charged.total_tokens == 15
        assert not first.already_settled
        again = await served.stub.Settle(settled(reply.record, completion=6))
        assert (again.already_settled, again.conflict) == (True, True)
        assert again.settlement == first.settlement
        [event] = await served.account.events()
        assert LifecycleRecord.FromString(event.lifecycle).worker_id == "w1"


async def test_a_refusal_carries_the_full_account_of_why(tmp_path: Path) -> None:
    async with service(tmp_path, directory(tpm(40), rpm(1), cluster=[tpm(50)])) as served:
        await served.reserve("first")
        refused = await refusal(served.stub.Reserve(ask("second")))
        assert isinstance(refused, LimitExceeded)
        assert refused.reason is Reason.RATE_LIMIT_EXCEEDED
        assert refused.retry_after_s == pytest.approx(hint(60, "second"), abs=1e-3)
        told = {violation.limit_id: violation for violation in refused.violations}
        assert set(told) == {"cluster/tpm", "tenant:acme/tpm", "tenant:acme/rpm"}
        own = told["tenant:acme/tpm"]
        assert (own.limit, own.used, own.requested) == (40, 30, 30)
        assert own.reset_time_ms == served.account.now_ms() + 30_000
        assert told["cluster/tpm"].limit is None
        assert told["cluster/tpm"].knob == "limit `tpm` of the cluster"


BAD_ASKS = [
    ({"request_id": ""}, "request_id"),
    ({"request_id": "x" * 129}, "request_id"),
    ({"request_id": "x" * 100_000}, "request_id"),
    ({"request_id": "a\0b"}, "request_id"),
    ({"request_id": "a\r\nb"}, "request_id"),
    ({"request_id": "\u00e9"}, "request_id"),
    ({"subject": Subject(model="m")}, "subject.tenant_id"),
    ({"subject": Subject(tenant_id="acme")}, "subject.model"),
    ({"subject": Subject(tenant_id="{x}", model="m")}, "subject.tenant_id"),
    ({"prompt_tokens": 0}, "prompt_tokens"),
    ({"prompt_tokens": -1}, "prompt_tokens"),
    ({"max_new_tokens": 0}, "max_new_tokens"),
    ({"max_new_tokens": -1}, "max_new_tokens"),
    ({"max_new_tokens": 2**63 - 1}, "max_new_tokens"),
    ({"model_context_tokens": -5}, "model_context_tokens"),
    ({"ttl": Duration(nanos=1)}, "ttl"),
    ({"ttl": Duration(seconds=601)}, "ttl"),
    ({"ttl": Duration(seconds=-(2**62))}, "ttl"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_ASKS)
async def test_bad_input_is_named_and_hurts_nobody(
    tmp_path: Path, fields: dict[str, Any], field: str
) -> None:
    async with service(tmp_path) as served:
        refused = await refusal(served.stub.Reserve(ask(**{"request_id": "bad"} | fields)))
        assert isinstance(refused, InvalidField)
        assert refused.field == field
        assert field in refused.message
        reply = await served.reserve("good")
        assert {s.remaining for s in reply.limits if s.limit_id == "tenant:acme/tpm"} == {70}


@pytest.mark.parametrize(
    ("usage", "quality", "field"),
    [
        (Usage(prompt_tokens=-1), USAGE_QUALITY_EXACT, "usage.prompt_tokens"),
        (Usage(completion_tokens=2**53), USAGE_QUALITY_EXACT, "usage.completion_tokens"),
        (Usage(cached_prompt_tokens=1), USAGE_QUALITY_EXACT, "usage.cached_prompt_tokens"),
        (Usage(prompt_tokens=1, total_tokens=9), USAGE_QUALITY_EXACT, "usage.total_tokens"),
        (Usage(prompt_tokens=1), 0, "usage_quality"),
        (Usage(prompt_tokens=1), 77, "usage_quality"),
    ],
)
async def test_bad_usage_charges_nothing(
    tmp_path: Path, usage: Usage, quality: Any, field: str
) -> None:
    async with service(tmp_path) as served:
        reply = await served.reserve()
        request = pb.SettleRequest(record=reply.record, usage=usage, usage_quality=quality)
        refused = await refusal(served.stub.Settle(request))
        assert (type(refused), refused.field) == (InvalidField, field)
        done = await served.stub.Settle(settled(reply.record))
        assert not done.already_settled


async def test_settlements_of_every_quality(tmp_path: Path) -> None:
    async with service(tmp_path, directory(tpm(1000))) as served:
        charged = {}
        for quality in (USAGE_QUALITY_EXACT, USAGE_QUALITY_ESTIMATED, USAGE_QUALITY_UNKNOWN):
            reply = await served.reserve(f"r{quality}")
            news = pb.Extension(record=reply.record, output_tokens=7, dispatched=True)
            await served.stub.Extend(pb.ExtendRequest(extensions=[news]))
            request = pb.SettleRequest(
                record=reply.record,
                usage=Usage(prompt_tokens=9, completion_tokens=4),
                usage_quality=quality,
                outcome=OUTCOME_CANCELLED,
            )
            ended = (await served.stub.Settle(request)).settlement
            charged[quality] = (
                ended.charged.prompt_tokens,
                ended.charged.completion_tokens,
                ended.usage_quality,
            )
        assert charged == {
            USAGE_QUALITY_EXACT: (9, 4, USAGE_QUALITY_EXACT),
            USAGE_QUALITY_ESTIMATED: (9, 7, USAGE_QUALITY_ESTIMATED),
            USAGE_QUALITY_UNKNOWN: (10, 7, USAGE_QUALITY_ESTIMATED),
        }


async def test_extensions_succeed_and_fail_each_on_its_own(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        good = await served.reserve("good")
        ended = await served.reserve("ended")
        await served.stub.Settle(settled(ended.record))
        extensions = [
            pb.Extension(record=b"junk"),
            pb.Extension(record=ended.record),
            pb.Extension(record=good.record, output_tokens=-1),
            pb.Extension(record=good.record, additional_output_tokens=-1),
            pb.Extension(record=good.record, ttl=Duration(seconds=0)),
            pb.Extension(record=good.record, output_tokens=2),
        ]
        results = (await served.stub.Extend(pb.ExtendRequest(extensions=extensions))).results
        names = [
            error_reason_pb2.ErrorReason.Name(r.error_reason).removeprefix("ERROR_REASON_")
            for r in results
        ]
        assert names == [
            "RESERVATION_RECORD_INVALID",
            "RESERVATION_EXPIRED",
            "INVALID_FIELD",
            "INVALID_FIELD",
            "INVALID_FIELD",
            "UNSPECIFIED",
        ]
        assert [r.granted for r in results] == [False] * 5 + [True]
        ids = ["", ended.reservation_id, *[good.reservation_id] * 4]
        assert [result.reservation_id for result in results] == ids
        assert all(result.message for result in results[:-1])
        many = pb.ExtendRequest(extensions=[pb.Extension(record=b"x")] * 1_001)
        refused = await refusal(served.stub.Extend(many))
        assert refused.field == "extensions"


async def test_an_extension_refused_by_a_limit_carries_the_refusal(tmp_path: Path) -> None:
    policy = directory_pb2.Policy(reserve_policy=directory_pb2.RESERVE_POLICY_ESTIMATE)
    async with service(tmp_path, directory(tpm(100), policy=policy)) as served:
        reply = await served.reserve(prompt_tokens=60, max_new_tokens=4_000)
        assert reply.reserved_output_tokens == 40
        news = pb.Extension(record=reply.record, output_tokens=40, additional_output_tokens=5)
        [result] = (await served.stub.Extend(pb.ExtendRequest(extensions=[news]))).results
        assert not result.granted
        assert result.error_reason == error_reason_pb2.ERROR_REASON_TOKEN_LIMIT_EXCEEDED
        [violation] = result.refusal.violations
        assert (violation.limit_id, violation.requested) == ("tenant:acme/tpm", 5)
        assert "send a new request in 3.000 s" in result.message
        assert result.reserved_output_tokens == 40


async def test_an_extension_that_can_never_fit_says_so(tmp_path: Path) -> None:
    policy = directory_pb2.Policy(reserve_policy=directory_pb2.RESERVE_POLICY_ESTIMATE)
    async with service(tmp_path, directory(tpm(100), policy=policy)) as served:
        reply = await served.reserve(prompt_tokens=60, max_new_tokens=4_000)
        news = pb.Extension(record=reply.record, output_tokens=40, additional_output_tokens=101)
        [result] = (await served.stub.Extend(pb.ExtendRequest(extensions=[news]))).results
        assert result.error_reason == error_reason_pb2.ERROR_REASON_REQUEST_TOO_LARGE
        assert not result.refusal.violations[0].HasField("reset_time")


async def test_a_forged_record_ends_nothing(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        reply = await served.reserve()
        forged = reply.record[:-1] + bytes([reply.record[-1] ^ 1])
        for call in (
            served.stub.Settle(settled(forged)),
            served.stub.Refund(pb.RefundRequest(record=forged)),
        ):
            assert (await refusal(call)).reason is Reason.RESERVATION_RECORD_INVALID
        done = await served.stub.Refund(pb.RefundRequest(record=reply.record))
        assert done.settlement.state == pb.RESERVATION_STATE_REFUNDED


async def test_an_oversized_lifecycle_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        reply = await served.reserve()
        request = settled(reply.record)
        request.lifecycle.session_id = "x" * 20_000
        assert (await refusal(served.stub.Settle(request))).field == "lifecycle"


async def test_until_the_directory_has_come_nothing_is_decided(tmp_path: Path) -> None:
    async with service(tmp_path, None) as served:
        refused = await refusal(served.stub.Reserve(ask()))
        assert refused.reason is Reason.LIMITER_UNAVAILABLE
        assert refused.retry_after_s == 1.0
        await served.account.use(SNAPSHOT)
        assert (await served.reserve()).reservation_id


async def test_only_services_with_the_secret_get_in(tmp_path: Path) -> None:
    async with service(tmp_path) as served, open_channel(served.address, name="x") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await RateLimiterServiceStub(channel).Reserve(ask())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_explain_tells_where_a_caller_stands_and_changes_nothing(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        await served.account.use(
            directory(tpm(100), rpm(20), parallel(5), context(4096), cluster=[tpm(10_000)])
        )
        reply = await served.reserve()
        size = served.account.log.journal_bytes
        told = await served.stub.Explain(pb.ExplainRequest(subject=ACME))
        assert [(s.limit_id, s.limit) for s in told.limits if s.limit_type == "context"] == [
            ("tenant:acme/context", 4096)
        ]
        assert {s.limit_id: s.held for s in told.limits if s.held} == {
            "tenant:acme/tpm": 30,
            "tenant:acme/rpm": 1,
            "tenant:acme/parallel": 1,
        }
        assert told.directory_version == 1
        fits = pb.ExplainRequest(
            subject=ACME, hypothetical=pb.ReserveRequest(prompt_tokens=10, max_new_tokens=60)
        )
        assert (await served.stub.Explain(fits)).admissible
        too_much = pb.ExplainRequest(
            subject=ACME, hypothetical=pb.ReserveRequest(prompt_tokens=11, max_new_tokens=60)
        )
        no = await served.stub.Explain(too_much)
        assert not no.admissible
        assert [v.limit_id for v in no.refusal.violations] == ["tenant:acme/tpm"]
        assert [s.limit_id for s in no.limits if s.violated] == ["tenant:acme/tpm"]
        assert served.account.log.journal_bytes == size
        by_id = pb.ExplainRequest(subject=ACME, reservation_id=reply.reservation_id)
        found = (await served.stub.Explain(by_id)).reservation
        assert (found.request_id, found.reserved_output_tokens) == ("r", 20)
        assert found.state == pb.RESERVATION_STATE_RESERVED


async def test_explain_refuses_what_the_kv_quota_can_never_hold(tmp_path: Path) -> None:
    policy = directory_pb2.Policy(kv=directory_pb2.KvPolicy(max_tokens=40))
    async with service(tmp_path, directory(tpm(1_000), policy=policy)) as served:
        fits, too_much = (
            pb.ExplainRequest(
                subject=ACME, hypothetical=pb.ReserveRequest(prompt_tokens=11, max_new_tokens=most)
            )
            for most in (30, 31)
        )
        assert (await served.stub.Explain(fits)).admissible
        told = await served.stub.Explain(too_much)
        assert not told.admissible
        (violation,) = told.refusal.violations
        assert violation.limit_id == "tenant:acme/kv.max_tokens"
        assert (violation.limit, violation.requested) == (40, 41)
        assert not violation.HasField("reset_time")
        # The quota is not the ratelimiter's to enforce: gateways and workers do.
        assert (await served.reserve(prompt_tokens=11, max_new_tokens=31)).reservation_id


async def test_explain_takes_the_alias_that_calls_use(tmp_path: Path) -> None:
    snapshot = directory(tpm(100), model=[tpm(50)])
    snapshot.models[0].aliases.append("short")
    async with service(tmp_path, snapshot) as served:
        told = []
        for name in ("m", "short"):
            subject = Subject(tenant_id="acme", model=name)
            asked = pb.ReserveRequest(prompt_tokens=10, max_new_tokens=60)
            request = pb.ExplainRequest(subject=subject, hypothetical=asked)
            told.append(await served.stub.Explain(request))
        assert told[0].refusal == told[1].refusal
        assert [v.limit_id for v in told[1].refusal.violations] == ["model:m/tpm"]
        assert [s.limit_id for s in told[1].limits] == [s.limit_id for s in told[0].limits]


async def test_explain_shows_no_tenant_another_tenants_reservation(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        reply = await served.reserve()
        theirs = pb.ExplainRequest(subject=OTHER, reservation_id=reply.reservation_id)
        nothing = pb.ExplainRequest(subject=OTHER, reservation_id="rsv_0")
        one, two = [await refusal(served.stub.Explain(r)) for r in (theirs, nothing)]
        assert one.reason is two.reason is Reason.RESERVATION_NOT_FOUND
        assert one.message == two.message
        mixed = pb.ExplainRequest(subject=OTHER, hypothetical=ask())
        assert (await refusal(served.stub.Explain(mixed))).field == (
            "hypothetical.subject.tenant_id"
        )


@pytest.mark.parametrize(
    ("who", "field", "reason"),
    [
        ({"tenant_id": "globex"}, "subject.tenant_id", Reason.NOT_FOUND),
        ({"user_id": "bbo"}, "subject.user_id", Reason.NOT_FOUND),
        ({"api_key_id": "key9"}, "subject.api_key_id", Reason.NOT_FOUND),
        ({"api_key_id": "key2"}, "subject.api_key_id", Reason.NOT_FOUND),
        ({"model": "mm"}, "subject.model", Reason.MODEL_NOT_FOUND),
    ],
)
async def test_explain_refuses_what_the_directory_does_not_know(
    tmp_path: Path, who: dict[str, str], field: str, reason: Reason
) -> None:
    async with service(tmp_path) as served:
        subject = Subject(**({"tenant_id": "acme"} | who))
        told = await refusal(served.stub.Explain(pb.ExplainRequest(subject=subject)))
        assert (told.reason, told.field) == (reason, field)
        assert next(iter(who.values())) in told.message
        hypothetical = ask()
        hypothetical.subject.user_id = "bbo"
        request = pb.ExplainRequest(subject=ACME, hypothetical=hypothetical)
        assert (await refusal(served.stub.Explain(request))).field == "subject.user_id"


async def test_a_dry_run_answers_like_the_real_thing(tmp_path: Path) -> None:
    async with service(tmp_path) as served:
        reply = await served.reserve(dry_run=True)
        assert (reply.reservation_id, reply.record) == ("", b"")
        assert (await served.reserve()).reservation_id


async def test_refusals_are_counted_by_tenant_and_limit(tmp_path: Path) -> None:
    async with service(tmp_path, directory(tpm(30))) as served:
        await served.reserve("a")
        for name in ("b", "c"):
            await refusal(served.stub.Reserve(ask(name)))
        value = served.account.registry.get_sample_value
        labels = {"tenant": "acme", "limit_type": "tpm", "layer": "tenant"}
        assert value("weir_ratelimiter_refusals_total", labels) == 2
        refused = {"operation": "reserve", "outcome": "refused"}
        assert value("weir_ratelimiter_decisions_total", refused) == 2
