# ruff: noqa: N802
"""Many calls of the account over one stream, by the gateway's own client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from tests.core.support import eventually
from tests.otlp_sink import otlp_sink
from tests.ratelimiter.account import directory, parallel, tpm
from tests.ratelimiter.test_service import ask, refusal, service, settled
from weir.common.v1.lifecycle_pb2 import OUTCOME_CANCELLED, TraceContext
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import (
    RateLimiterServiceServicer,
    RateLimiterServiceStub,
    add_RateLimiterServiceServicer_to_server,
)
from weir_core.errors import InvalidField, LimitExceeded, Reason, WeirError
from weir_core.rpc.channel import open_channel
from weir_core.rpc.framed import FramedOptions
from weir_core.rpc.interceptors import MetricsInterceptor, default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.tracing import Tracing
from weir_core.telemetry.tracing_setup import setup_tracing
from weir_gateway.links.account_stream import AccountStream, NotCarried
from weir_gateway.links.limiter import Limiter
from weir_ratelimiter.multiplex import AccountStreams

STEADY = FramedOptions(heartbeat_s=0.5, silence_s=20, stall_s=20, goodbye_s=5)
TIMEOUT_S = 20.0


@asynccontextmanager
async def streamed(channel: grpc.aio.Channel) -> AsyncIterator[AccountStream]:
    stream = AccountStream(channel, options=STEADY)
    stream.start()
    try:
        await stream.wait_connected(TIMEOUT_S)
        yield stream
    finally:
        await stream.stop()


def _not_played(*_: Any, **__: Any) -> Any:
    raise WeirError(Reason.NOT_BUILT_YET, "no test needs it")


@dataclass
class Gated(RateLimiterServiceServicer):
    """Reserves when its gate opens; says how its calls went."""

    Extend = Settle = Refund = staticmethod(_not_played)
    Explain = AdjustLimit = ListReservations = staticmethod(_not_played)

    options: FramedOptions = STEADY
    tracing: Tracing = field(default_factory=lambda: Tracing("test"))
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    multiplexes: bool = True
    record: bytes = b"record"
    reserving: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    streams_open: int = 0

    def __post_init__(self) -> None:
        self.gate = asyncio.Event()
        self.metrics = MetricsInterceptor(self.registry)
        self.streams = AccountStreams(self, self.tracing, self.metrics, self.options)
        self.address = "127.0.0.1:0"

    async def Reserve(self, request: pb.ReserveRequest, context: Any) -> pb.ReserveResponse:
        self.reserving.append(request.request_id)
        outcome = "decided"
        try:
            if request.request_id.startswith("broken"):
                raise ValueError("the prompt")
            if not request.request_id.startswith("free"):
                await self.gate.wait()
        except BaseException as exc:
            outcome = type(exc).__name__
            raise
        finally:
            self.ended.append(outcome)
        return pb.ReserveResponse(reservation_id=request.request_id, record=self.record)

    async def Multiplex(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        if not self.multiplexes:
            raise WeirError(Reason.NOT_BUILT_YET, "an older release")
        self.streams_open += 1
        try:
            await self.streams.serve(request_iterator, context)
        finally:
            self.streams_open -= 1

    async def start(self) -> None:
        self.server = create_server(
            interceptors=default_interceptors(
                tracing=self.tracing, registry=CollectorRegistry(), tokens=[]
            )
        )
        add_RateLimiterServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port(self.address)}"
        await self.server.start()


@asynccontextmanager
async def gated(**fields: Any) -> AsyncIterator[tuple[Gated, grpc.aio.Channel]]:
    servicer = Gated(**fields)
    await servicer.start()
    try:
        async with open_channel(servicer.address, name="ratelimiter") as channel:
            yield servicer, channel
    finally:
        await servicer.server.stop(0)


async def reserve(stream: AccountStream, request_id: str, timeout_s: float = TIMEOUT_S) -> Any:
    return await stream.call("reserve", pb.ReserveRequest(request_id=request_id), timeout_s)


async def test_a_call_is_answered_as_its_unary_one(tmp_path: Path) -> None:
    async with service(tmp_path) as served, streamed(served.channel) as stream:
        reply = await stream.call("reserve", ask("r"), TIMEOUT_S)
        again = await served.reserve("r")
        assert again.replayed
        assert again.reservation_id == reply.reservation_id
        assert list(again.limits) == list(reply.limits)
        extension = pb.Extension(record=reply.record, output_tokens=3, dispatched=True)
        request = pb.ExtendRequest(extensions=[extension])
        (result,) = (await stream.call("extend", request, TIMEOUT_S)).results
        assert result.granted
        ended = await stream.call("settle", settled(reply.record), TIMEOUT_S)
        assert ended.settlement.charged.completion_tokens == 5
        other = await stream.call("reserve", ask("other"), TIMEOUT_S)
        refund = pb.RefundRequest(record=other.record, outcome=OUTCOME_CANCELLED)
        back = await stream.call("refund", refund, TIMEOUT_S)
        assert back.settlement.state == pb.RESERVATION_STATE_REFUNDED


async def test_an_error_is_that_of_the_unary_call(tmp_path: Path) -> None:
    async with (
        service(tmp_path, directory(parallel(1), tpm(1_000))) as served,
        streamed(served.channel) as stream,
    ):
        await served.reserve("first")
        for request, kind in (
            (ask("full"), LimitExceeded),
            (ask("never", max_new_tokens=5_000), LimitExceeded),
            (ask("{bad}"), InvalidField),
        ):
            unary = await refusal(served.stub.Reserve(request))
            with pytest.raises(kind) as caught:
                await stream.call("reserve", request, TIMEOUT_S)
            told = caught.value
            assert isinstance(told, WeirError)
            assert (told.reason, told.message, told.field) == (
                unary.reason,
                unary.message,
                unary.field,
            )
            assert told.retry_after_s == unary.retry_after_s
            if isinstance(told, LimitExceeded):
                assert isinstance(unary, LimitExceeded)
                assert told.violations == unary.violations


async def test_a_thousand_calls_in_flight_admit_exactly_what_fits(tmp_path: Path) -> None:
    async with (
        service(tmp_path, directory(parallel(100))) as served,
        streamed(served.channel) as stream,
    ):
        outcomes = await asyncio.gather(
            *(stream.call("reserve", ask(f"r{n}"), TIMEOUT_S) for n in range(1_000)),
            return_exceptions=True,
        )
        won = {o.reservation_id for o in outcomes if isinstance(o, pb.ReserveResponse)}
        lost = [o for o in outcomes if isinstance(o, LimitExceeded)]
        assert (len(won), len(lost)) == (100, 900)


async def test_a_large_extend_lets_other_calls_pass(tmp_path: Path) -> None:
    async with service(tmp_path) as served, streamed(served.channel) as stream:
        record = (await served.reserve("long")).record
        many = pb.ExtendRequest(extensions=[pb.Extension(record=record)] * 1_000)
        order: list[str] = []

        async def extend() -> None:
            assert len((await stream.call("extend", many, TIMEOUT_S)).results) == 1_000
            order.append("extend")

        async def settle() -> None:
            await stream.call("settle", settled(short), TIMEOUT_S)
            order.append("settle")

        short = (await served.reserve("short")).record
        await asyncio.gather(extend(), settle())
        assert order == ["settle", "extend"]


async def test_a_call_that_breaks_costs_itself_alone() -> None:
    async with gated() as (servicer, channel), streamed(channel) as stream:
        waiting = asyncio.create_task(reserve(stream, "waits"))
        await eventually(lambda: servicer.reserving == ["waits"])
        with pytest.raises(WeirError) as broken:
            await reserve(stream, "broken")
        assert broken.value.reason is Reason.INTERNAL
        assert "prompt" not in broken.value.message
        with pytest.raises(WeirError) as late:
            await reserve(stream, "late", 0.05)
        assert late.value.reason is Reason.DEADLINE_EXCEEDED
        # The server's own deadline ended it.
        await eventually(lambda: "CancelledError" in servicer.ended)
        assert (await reserve(stream, "free")).reservation_id == "free"
        servicer.gate.set()
        assert (await waiting).reservation_id == "waits"


async def test_a_caller_that_leaves_disturbs_nobody() -> None:
    async with gated() as (servicer, channel), streamed(channel) as stream:
        leaving = asyncio.create_task(reserve(stream, "leaves"))
        staying = asyncio.create_task(reserve(stream, "stays"))
        await eventually(lambda: len(servicer.reserving) == 2)
        leaving.cancel()
        servicer.gate.set()
        assert (await staying).reservation_id == "stays"
        assert servicer.ended == ["decided", "decided"]


async def test_a_stream_cut_in_mid_call_gives_up_its_calls_and_comes_back() -> None:
    async with gated() as (servicer, channel), streamed(channel) as stream:
        waiting = asyncio.create_task(reserve(stream, "waits"))
        await eventually(lambda: servicer.reserving == ["waits"])
        await servicer.server.stop(0)
        with pytest.raises(NotCarried):
            await waiting
        await eventually(lambda: servicer.ended == ["CancelledError"])
        assert not stream.ready
        with pytest.raises(NotCarried):
            await reserve(stream, "nobody")
        await servicer.start()
        await stream.wait_connected(TIMEOUT_S)
        assert (await reserve(stream, "free")).reservation_id == "free"


async def test_a_lost_answer_is_asked_for_again_by_a_single_call() -> None:
    async with gated() as (servicer, channel):
        limiter = Limiter(channel, timeout_s=TIMEOUT_S, options=STEADY)
        limiter.start()
        try:
            await eventually(lambda: limiter._stream.ready)
            waiting = asyncio.create_task(limiter.reserve(pb.ReserveRequest(request_id="r")))
            await eventually(lambda: servicer.reserving == ["r"])
            await servicer.streams.close("cut")
            servicer.gate.set()
            assert (await waiting).id == "r"
            assert servicer.reserving == ["r", "r"]
        finally:
            await limiter.stop()


async def test_an_older_ratelimiter_is_asked_by_single_calls() -> None:
    async with gated(multiplexes=False) as (_, channel):
        limiter = Limiter(channel, timeout_s=TIMEOUT_S, options=STEADY)
        limiter.start()
        try:
            assert (await limiter.reserve(pb.ReserveRequest(request_id="free"))).id == "free"
            await eventually(lambda: limiter._stream._stream.last_error is not None)
            assert (await limiter.reserve(pb.ReserveRequest(request_id="free"))).id == "free"
        finally:
            await limiter.stop()


async def test_draining_answers_what_was_asked_and_ends_the_stream() -> None:
    async with gated() as (servicer, channel), streamed(channel) as stream:
        waiting = asyncio.create_task(reserve(stream, "waits"))
        await eventually(lambda: servicer.reserving == ["waits"])
        closing = asyncio.create_task(servicer.streams.close("stopping"))
        servicer.gate.set()
        assert (await waiting).reservation_id == "waits"
        await closing


async def test_a_client_that_reads_nothing_is_let_go_and_holds_up_nobody() -> None:
    stalled = FramedOptions(
        heartbeat_s=0.2, silence_s=30, stall_s=0.5, max_items=8, max_bytes=65_536
    )
    async with gated(options=stalled, record=b"x" * 20_000) as (servicer, channel):
        call = RateLimiterServiceStub(channel).Multiplex()
        calls = [
            pb.AccountCall(call=n + 1, reserve=pb.ReserveRequest(request_id="free"))
            for n in range(500)
        ]
        await call.write(pb.MultiplexRequest(calls=calls))
        await eventually(lambda: servicer.ended == ["decided"] * 500)
        async with open_channel(servicer.address, name="other") as other, streamed(other) as stream:
            assert (await reserve(stream, "free")).reservation_id == "free"
        await eventually(lambda: servicer.streams_open == 0)
        call.cancel()


async def test_too_many_unanswered_calls_end_the_stream() -> None:
    async with gated() as (servicer, channel):
        call = RateLimiterServiceStub(channel).Multiplex()
        reserve = pb.ReserveRequest(request_id="w")
        for first in (1, 5_002):
            numbers = range(first, first + 5_001)
            calls = [pb.AccountCall(call=number, reserve=reserve) for number in numbers]
            await call.write(pb.MultiplexRequest(calls=calls))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "10000 calls are unanswered" in str(caught.value.details())
        await eventually(lambda: servicer.streams_open == 0)
        assert servicer.ended == ["CancelledError"] * 5_001


async def test_a_number_may_be_used_again_only_once_its_call_is_answered() -> None:
    async with gated() as (servicer, channel):
        call = RateLimiterServiceStub(channel).Multiplex()
        for request_id in ("free", "free again", "waits", "too early"):
            reserve = pb.ReserveRequest(request_id=request_id)
            calls = [pb.AccountCall(call=7, reserve=reserve)]
            await call.write(pb.MultiplexRequest(calls=calls))
            if request_id.startswith("free"):
                async for frame in call:
                    if frame.answers:
                        break
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "call is" in str(caught.value.details())
        assert servicer.reserving[:2] == ["free", "free again"]
        assert "too early" not in servicer.reserving


async def test_calls_on_a_stream_count_as_those_of_their_methods() -> None:
    async with gated() as (servicer, channel), streamed(channel) as stream:
        await reserve(stream, "free")
        with pytest.raises(WeirError):
            await reserve(stream, "broken")

        def handled(code: str) -> float | None:
            labels = {
                "grpc_type": "unary",
                "grpc_service": "weir.ratelimiter.v1.RateLimiterService",
                "grpc_method": "Reserve",
                "grpc_code": code,
            }
            return servicer.registry.get_sample_value("grpc_server_handled_total", labels)

        await eventually(lambda: (handled("OK"), handled("INTERNAL")) == (1, 1))


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (pb.AccountCall(call=7), b"request"),
        (pb.AccountCall(call=0, settle=pb.SettleRequest()), b"call"),
        (pb.AccountCall(call=-5, settle=pb.SettleRequest()), b"call"),
    ],
)
async def test_a_malformed_call_is_refused_by_its_field(
    asked: pb.AccountCall, field: bytes
) -> None:
    async with gated() as (_, channel):
        call = RateLimiterServiceStub(channel).Multiplex()
        await call.write(pb.MultiplexRequest(calls=[asked]))
        async for frame in call:
            if frame.answers:
                assert frame.answers[0].call == asked.call
                assert field + b" is" in frame.answers[0].status
                break
        call.cancel()


async def test_each_call_continues_its_own_trace() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with otlp_sink() as sink:
        tracing = setup_tracing("weir-x", endpoint=sink.endpoint)
        async with gated(tracing=tracing) as (_, channel):
            call = RateLimiterServiceStub(channel).Multiplex()
            await call.write(
                pb.MultiplexRequest(
                    calls=[
                        pb.AccountCall(
                            call=n,
                            reserve=pb.ReserveRequest(request_id=request_id),
                            trace=TraceContext(traceparent=f"00-{trace}-b7ad6b7169203331-{flags}"),
                        )
                        for n, request_id, flags in (
                            (1, "free", "01"),
                            (2, "broken", "01"),
                            (3, "free", "00"),
                        )
                    ]
                )
            )
            spans = await sink.wait_for(lambda spans: len(spans) >= 2)
            call.cancel()
        await asyncio.to_thread(tracing.shutdown)
    assert {span.name for span in spans} == {"weir.ratelimiter.v1.RateLimiterService/Reserve"}
    assert {span.parent_id for span in spans} == {"b7ad6b7169203331"}
    assert {span.attributes["rpc.grpc.status_code"] for span in spans} == {0, 13}
