"""Auth between services, health, reflection, and one trace across hops."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.trace import SpanKind
from pydantic import SecretStr

from tests.core.support import SERVICE, Echo, echo_server, eventually
from tests.otlp_sink import otlp_sink
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel
from weir_core.rpc.finish import finish
from weir_core.rpc.health import ServerHealth, add_health
from weir_core.rpc.interceptors import ServiceAuthInterceptor
from weir_core.rpc.server import add_reflection
from weir_core.telemetry.context import bind_request, current_request_id
from weir_core.telemetry.span_context import (
    begin_no_traces,
    context_from,
    current_traceparent,
    traceparent_of,
)
from weir_core.telemetry.tracing import Tracing
from weir_core.telemetry.tracing_setup import setup_tracing

REAL = "weir.worker.v1.WorkerService"


async def ok(request: bytes, context: Any) -> bytes:
    return b"ok"


async def refusal_of(call: Any) -> Reason:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL).reason


async def test_only_callers_with_one_of_the_secrets_are_served() -> None:
    tokens = [SecretStr("new"), SecretStr("old")]
    async with echo_server(tokens=tokens, token=SecretStr("old"), U=("unary", ok)) as echo:
        assert await echo.unary("U")(b"") == b"ok"
        async with open_channel(echo.address, name="e", token=SecretStr("new")) as other:
            assert await other.unary_unary(f"/{SERVICE}/U")(b"") == b"ok"
        async with open_channel(echo.address, name="e") as anonymous:
            call = anonymous.unary_unary(f"/{SERVICE}/U")
            assert await refusal_of(call(b"")) is Reason.API_KEY_MISSING
            for wrong in ("Bearer nope", "Bearer ", "Bearer newer", "Basic new", "new"):
                reason = await refusal_of(call(b"", metadata=(("authorization", wrong),)))
                assert reason in (Reason.API_KEY_INVALID, Reason.API_KEY_MISSING)


async def test_health_reflection_and_open_services_need_no_secret() -> None:
    def prepare(server: grpc.aio.Server) -> None:
        add_health(server, [SERVICE])
        add_reflection(server, [REAL])

    async with (
        echo_server(tokens=[SecretStr("s")], prepare=prepare, U=("unary", ok)) as echo,
        open_channel(echo.address, name="anyone") as anyone,
    ):
        health: Any = health_pb2_grpc.HealthStub(anyone)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", anyone))
        call = reflection.ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        listed = await call.read()
        names = {service.name for service in listed.list_services_response.service}
        assert {REAL, "grpc.health.v1.Health"} <= names
        await call.done_writing()

    auth = ServiceAuthInterceptor([SecretStr("s")], open_services=[SERVICE])
    assert SERVICE in auth._open
    with pytest.raises(ValueError, match="empty"):
        ServiceAuthInterceptor([SecretStr("")])


async def test_health_is_told_by_service_and_watchers_see_the_shutdown() -> None:
    health = ServerHealth(["a.v1.A", "b.v1.B"])
    async with echo_server(prepare=health.add_to, U=("unary", ok)) as echo:
        stub: Any = health_pb2_grpc.HealthStub(echo.channel)

        async def status_of(service: str) -> int:
            request = health_pb2.HealthCheckRequest(service=service)
            return int((await stub.Check(request)).status)

        status = health_pb2.HealthCheckResponse
        await health.set_serving("b.v1.B", False)
        await health.start()
        assert await status_of("") == status.SERVING
        assert await status_of("a.v1.A") == status.SERVING
        assert await status_of("b.v1.B") == status.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await status_of("c.v1.C")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="a.v1.A"))
        assert (await watch.read()).status == status.SERVING
        await health.enter_shutdown()
        assert (await watch.read()).status == status.NOT_SERVING
        await health.set_serving("a.v1.A", True)
        for service in ("", "a.v1.A", "b.v1.B"):
            assert await status_of(service) == status.NOT_SERVING
        watch.cancel()


async def test_one_exported_trace_spans_two_services_and_a_span_told_afterwards() -> None:
    async with otlp_sink() as sink:
        front = setup_tracing("weir-front", endpoint=sink.endpoint, instance="front-1")
        back = setup_tracing("weir-back", endpoint=sink.endpoint)
        ids: list[str] = []

        async def inner(request: bytes, context: Any) -> bytes:
            ids.append(current_request_id())
            parent = request.decode()
            told = back.record(
                "queue", parent=parent, start_us=1_000_000, end_us=3_500_000, attributes={"n": 3}
            )
            back.record("late", parent=told, start_us=9, end_us=5, error="CLOCK_WENT_BACK")
            return b""

        async with echo_server(tracing=back, U=("unary", inner)) as echo:
            bind_request(request_id="req_42")
            with front.span("chat tiny", parent="", kind=SpanKind.SERVER) as root:
                carried = traceparent_of(root)
                await echo.unary("U")(carried.encode())
            bind_request(request_id="")
        await asyncio.to_thread(front.shutdown)
        await asyncio.to_thread(back.shutdown)
        spans = {span.name: span for span in await sink.wait_for(lambda s: len(s) >= 4)}

    assert ids == ["req_42"]
    root_span, rpc = spans["chat tiny"], spans[f"{SERVICE}/U"]
    assert {span.trace_id for span in spans.values()} == {root_span.trace_id}
    assert (root_span.parent_id, rpc.parent_id) == ("", root_span.span_id)
    assert (root_span.service, rpc.service) == ("weir-front", "weir-back")
    assert rpc.attributes["rpc.grpc.status_code"] == 0
    queue, late = spans["queue"], spans["late"]
    assert queue.parent_id == root_span.span_id
    assert (queue.start_ns, queue.end_ns) == (1_000_000_000, 3_500_000_000)
    assert queue.attributes == {"n": 3}
    assert late.parent_id == queue.span_id
    assert (late.start_ns, late.end_ns) == (9_000, 9_000)
    assert (late.status_code, late.status_message) == (2, "CLOCK_WENT_BACK")


async def test_a_failed_rpc_and_a_cancelled_one_are_told_apart_in_the_trace() -> None:
    async def fail(request: bytes, context: Any) -> bytes:
        raise ValueError("the prompt")

    started = asyncio.Event()

    async def wait(request: bytes, context: Any) -> bytes:
        started.set()
        await asyncio.sleep(60)
        return b""

    async with otlp_sink() as sink:
        tracing = setup_tracing("weir-x", endpoint=sink.endpoint)
        async with echo_server(tracing=tracing, F=("unary", fail), W=("unary", wait)) as echo:
            with pytest.raises(grpc.aio.AioRpcError):
                await echo.unary("F")(b"")
            call = echo.unary("W")(b"")
            await started.wait()
            call.cancel()
            spans = {s.name: s for s in await sink.wait_for(lambda s: len(s) >= 2)}
        await asyncio.to_thread(tracing.shutdown)
    failed, cancelled = spans[f"{SERVICE}/F"], spans[f"{SERVICE}/W"]
    assert (failed.status_code, failed.attributes["rpc.grpc.status_code"]) == (2, 13)
    assert (cancelled.status_code, cancelled.attributes["rpc.grpc.status_code"]) == (0, 1)
    assert "the prompt" not in str(failed)


async def test_a_sampled_caller_is_followed_and_an_unsampled_one_is_not() -> None:
    async with otlp_sink() as sink:
        tracing = setup_tracing("weir-x", endpoint=sink.endpoint, sample_ratio=0.0)
        trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        tracing.record("yes", parent=f"00-{trace_id}-{span_id}-01", start_us=1, end_us=2)
        tracing.record("no", parent=f"00-{trace_id}-{span_id}-00", start_us=1, end_us=2)
        tracing.record("root", parent="", start_us=1, end_us=2)
        tracing.record("broken", parent="garbage", start_us=1, end_us=2)
        await asyncio.to_thread(tracing.shutdown)
        assert [span.name for span in sink.spans] == ["yes"]
        assert sink.trace(trace_id)[0].parent_id == span_id


async def test_an_unrecorded_trace_is_passed_on_and_costs_no_span() -> None:
    async def inside(request: bytes, context: Any) -> bytes:
        return current_traceparent().encode()

    trace = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
    async with otlp_sink() as sink:
        tracing = setup_tracing("weir-x", endpoint=sink.endpoint)
        async with echo_server(tracing=tracing, F=("unary", inside)) as echo:
            for sent, recorded in (
                (f"00-{trace}-00", False),
                (f"00-{trace}-02", False),
                (f"00-{trace}-01", True),
                (f"00-{'0' * 32}-00f067aa0ba902b7-00", True),
                (f"00-{trace}-0", True),
            ):
                told = await echo.unary("F")(b"", metadata=(("traceparent", sent),))
                assert (told.decode() == f"00-{trace}-00") is not recorded, sent
        await asyncio.to_thread(tracing.shutdown)
        assert len(sink.spans) == 3


async def test_looks_that_repeat_begin_no_traces_and_their_faults_are_seen() -> None:
    async def broken(request: bytes, context: Any) -> bytes:
        raise ValueError

    async def look(echo: Echo, name: str) -> None:
        begin_no_traces()
        await echo.unary(name)(b"")

    async with otlp_sink() as sink:
        tracing = setup_tracing("weir-x", endpoint=sink.endpoint, sample_ratio=1.0)
        async with echo_server(tracing=tracing, U=("unary", ok), B=("unary", broken)) as echo:
            await asyncio.create_task(look(echo, "U"))
            with pytest.raises(grpc.aio.AioRpcError):
                await asyncio.create_task(look(echo, "B"))
            await echo.unary("U")(b"")
        await asyncio.to_thread(tracing.shutdown)
        assert sorted(span.name for span in sink.spans) == [f"{SERVICE}/B", f"{SERVICE}/U"]


async def test_without_an_endpoint_ids_are_made_and_passed_on_but_nothing_is_kept() -> None:
    tracing = Tracing("weir-x")
    with tracing.span("root", parent="") as span:
        assert int(traceparent_of(span)[-2:], 16) & 1 == 0
        child = tracing.start("child")
        assert traceparent_of(child)[:35] == traceparent_of(span)[:35]
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    followed = tracing.start("x", parent=context_from(parent))
    assert traceparent_of(followed).split("-")[1] == parent.split("-")[1]
    tracing.shutdown()


async def test_a_dead_collector_neither_blocks_nor_fails_a_service() -> None:
    tracing = setup_tracing("weir-x", endpoint="http://127.0.0.1:9")
    with tracing.span("x", parent=""):
        pass
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(20):
        await asyncio.to_thread(tracing.shutdown, 0.5)
    assert loop.time() - began < 8


async def test_finish_runs_to_its_end_through_repeated_cancellation() -> None:
    done: list[str] = []

    async def settle() -> None:
        await asyncio.sleep(0.1)
        done.append("settled")

    async def request() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await finish(settle(), 5)

    task = asyncio.ensure_future(request())
    await asyncio.sleep(0)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["settled"]


async def test_finish_is_bounded_and_passes_results_and_errors() -> None:
    async def value() -> int:
        return 7

    async def broken() -> None:
        raise KeyError("x")

    assert await finish(value(), 1) == 7
    with pytest.raises(KeyError):
        await finish(broken(), 1)
    with pytest.raises(TimeoutError):
        await finish(asyncio.sleep(60), 0.02)


async def test_a_client_that_leaves_does_not_interrupt_the_settlement_in_finally() -> None:
    settled = asyncio.Event()

    async def settle() -> None:
        await asyncio.sleep(0.1)
        settled.set()

    async def serve(request: bytes, context: Any) -> Any:
        try:
            while True:
                yield b"x" * 200
        finally:
            await finish(settle(), 5)

    async with echo_server(S=("server_stream", serve)) as echo:
        call = echo.server_stream("S")(b"")
        await anext(aiter(call))
        call.cancel()
        await eventually(settled.is_set)


async def test_a_cancelled_bidirectional_call_settles_however_its_end_shows() -> None:
    """The request iterator may end as if in order, with the cancellation coming after."""
    settled: list[str] = []

    async def settle() -> None:
        await asyncio.sleep(0.1)
        settled.append("yes")

    async def serve(requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            async for request in requests:
                await context.write(request)
        finally:
            await finish(settle(), 5)

    async with echo_server(B=("bidi", serve)) as echo:
        for count in range(1, 6):
            call = echo.bidi("B")()
            await call.write(b"x")
            assert await call.read() == b"x"
            call.cancel()
            await eventually(lambda count=count: len(settled) == count)  # type: ignore[misc]
