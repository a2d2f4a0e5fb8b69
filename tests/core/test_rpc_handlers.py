"""What grpc.aio does around handlers, and what the interceptors make of it."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.core.support import SERVICE, echo_server, eventually
from weir_core.errors import InvalidField, LimitExceeded, Reason, Violation, WeirError
from weir_core.errors.status import RETRY_PUSHBACK, from_rpc_error
from weir_core.rpc.channel import open_channel
from weir_core.rpc.deadline import remaining_s
from weir_core.rpc.server import create_server

BOUND_S = 20.0


async def one(message: bytes) -> AsyncIterator[bytes]:
    yield message


def code_count(echo: Any, name: str, code: str) -> float:
    labels = {"grpc_service": SERVICE, "grpc_method": name, "grpc_code": code}
    return sum(
        float(sample.value)
        for metric in echo.registry.collect()
        for sample in metric.samples
        if sample.name == "grpc_server_handled_total" and labels.items() <= sample.labels.items()
    )


def in_flight(echo: Any) -> float:
    return sum(
        float(sample.value)
        for metric in echo.registry.collect()
        for sample in metric.samples
        if sample.name == "grpc_server_in_flight"
    )


async def unary(request: bytes, context: Any) -> bytes:
    return request * 2


async def generated(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for part in (b"1", b"2", request):
        yield part


async def written(request: bytes, context: Any) -> None:
    for part in (b"1", b"2", request):
        await context.write(part)


async def collected(requests: AsyncIterator[bytes], context: Any) -> bytes:
    return b"".join([request async for request in requests])


async def echoed(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request


async def test_all_four_kinds_and_both_styles_of_streaming_are_served_and_counted() -> None:
    async with (
        echo_server(
            U=("unary", unary),
            G=("server_stream", generated),
            W=("server_stream", written),
            C=("client_stream", collected),
            B=("bidi", echoed),
        ) as echo,
        asyncio.timeout(BOUND_S),
    ):
        assert await echo.unary("U")(b"a") == b"aa"
        assert [m async for m in echo.server_stream("G")(b"z")] == [b"1", b"2", b"z"]
        assert [m async for m in echo.server_stream("W")(b"z")] == [b"1", b"2", b"z"]
        assert await echo.client_stream("C")(one(b"q")) == b"q"
        assert [m async for m in echo.bidi("B")(one(b"q"))] == [b"q"]
        for name in "UGWCB":
            assert code_count(echo, name, "OK") == 1
        assert in_flight(echo) == 0


def raising(error: BaseException) -> dict[str, Any]:
    async def raise_unary(request: Any, context: Any) -> bytes:
        raise error

    async def raise_stream(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        raise error

    return {
        "U": ("unary", raise_unary),
        "S": ("server_stream", raise_stream),
        "C": ("client_stream", raise_unary),
        "B": ("bidi", raise_stream),
    }


async def errors_of_all_kinds(echo: Any) -> list[grpc.aio.AioRpcError]:
    async def drain(call: Any) -> None:
        async for _ in call:
            pass

    errors = []
    for start in (
        lambda: echo.unary("U")(b""),
        lambda: drain(echo.server_stream("S")(b"")),
        lambda: echo.client_stream("C")(one(b"")),
        lambda: drain(echo.bidi("B")(one(b""))),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with asyncio.timeout(BOUND_S):
                await start()
        errors.append(caught.value)
    return errors


async def test_a_domain_error_reaches_the_client_with_its_details_from_every_kind() -> None:
    violation = Violation(
        "tenant:acme/tpm", "tpm", "tokens", "tenant", 1000, 900, 200, 1_800_000_000_123, "raise tpm"
    )
    error = LimitExceeded(
        Reason.TOKEN_LIMIT_EXCEEDED, "too many tokens", [violation], retry_after_s=1.5
    )
    async with echo_server(**raising(error)) as echo:
        for caught in await errors_of_all_kinds(echo):
            assert caught.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (RETRY_PUSHBACK, "1500") in tuple(caught.trailing_metadata())
            told = from_rpc_error(caught, unavailable_as=Reason.INTERNAL)
            assert isinstance(told, LimitExceeded)
            assert told.violations == (violation,)
            assert told.retry_after_s == 1.5


async def test_an_unknown_exception_becomes_an_id_and_its_text_stays_inside(
    log_stream: io.StringIO,
) -> None:
    async with echo_server(**raising(ValueError("secret prompt"))) as echo:
        errors = await errors_of_all_kinds(echo)
        logged = log_stream.getvalue()
        for caught in errors:
            assert caught.code() is grpc.StatusCode.INTERNAL
            assert "secret prompt" not in str(caught.details()) + str(caught.trailing_metadata())
            told = from_rpc_error(caught, unavailable_as=Reason.NO_WORKER)
            assert told.reason is Reason.INTERNAL
            assert told.metadata["id"] in logged
            assert "ValueError" in logged
            assert "test_rpc_handlers.py" in logged
            assert "secret prompt" not in logged


async def test_cancelled_error_of_an_uncancelled_handler_never_leaves_the_client_waiting() -> None:
    async with echo_server(**raising(asyncio.CancelledError())) as echo:
        for caught in await errors_of_all_kinds(echo):
            assert caught.code() is grpc.StatusCode.CANCELLED
        assert in_flight(echo) == 0


async def test_a_method_of_the_contract_that_nobody_wrote_is_unimplemented() -> None:
    def generated_base_class_method(request: Any, context: Any) -> None:
        raise NotImplementedError("Method not implemented!")

    async with echo_server(U=("unary", generated_base_class_method)) as echo:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await echo.unary("U")(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert told.reason is Reason.NOT_BUILT_YET
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await echo.unary("Unknown")(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_error_of_a_call_made_by_the_handler_is_passed_on() -> None:
    async def refuse(request: bytes, context: Any) -> bytes:
        raise InvalidField("max_new_tokens", 0, "1 to 2048")

    async with echo_server(U=("unary", refuse)) as inner:

        async def forward(request: bytes, context: Any) -> bytes:
            return bytes(await inner.unary("U")(request))

        async with echo_server(U=("unary", forward)) as outer:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await outer.unary("U")(b"")
            told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
            assert isinstance(told, InvalidField)
            assert told.field == "max_new_tokens"


class Watched:
    """A handler that notes how it ended."""

    def __init__(self) -> None:
        self.sent = 0
        self.ended: list[str] = []
        self.finished = False

    async def wait(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"started"
            await asyncio.sleep(60)
        except BaseException as exc:
            self.ended.append(type(exc).__name__)
            raise
        finally:
            await asyncio.sleep(0)
            self.finished = True

    async def flood(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 200
                self.sent += 1
        except BaseException as exc:
            self.ended.append(type(exc).__name__)
            raise
        finally:
            await asyncio.sleep(0.1)
            self.finished = True

    async def sleep(self, request: bytes, context: Any) -> bytes:
        try:
            await asyncio.sleep(60)
        except BaseException as exc:
            self.ended.append(type(exc).__name__)
            raise
        finally:
            self.finished = True
        return b""


async def test_client_cancel_of_a_waiting_stream_is_cancelled_error_and_finally_may_await() -> None:
    watched = Watched()
    async with echo_server(S=("server_stream", watched.wait)) as echo, asyncio.timeout(BOUND_S):
        call = echo.server_stream("S")(b"")
        assert await anext(aiter(call)) == b"started"
        call.cancel()
        await eventually(lambda: watched.finished)
        assert watched.ended == ["CancelledError"]
        await eventually(lambda: code_count(echo, "S", "CANCELLED") == 1)
        assert in_flight(echo) == 0


async def test_client_deadline_of_a_waiting_stream_ends_the_handler() -> None:
    watched = Watched()
    async with echo_server(S=("server_stream", watched.wait)) as echo, asyncio.timeout(BOUND_S):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in echo.server_stream("S")(b"", timeout=2):
                pass
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: watched.finished)
        assert watched.ended == ["CancelledError"]
        # Whichever is there first: the server's own deadline, or the client's leaving at its.
        codes = "DEADLINE_EXCEEDED", "CANCELLED"
        await eventually(lambda: sum(code_count(echo, "S", code) for code in codes) == 1)


async def test_channel_close_ends_the_handler() -> None:
    watched = Watched()
    async with echo_server(U=("unary", watched.sleep)) as echo, asyncio.timeout(BOUND_S):
        other = open_channel(echo.address, name="echo")
        call = other.unary_unary(f"/{SERVICE}/U")(b"")
        await eventually(lambda: in_flight(echo) == 1)
        await other.close()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: watched.finished)


async def test_a_stalled_reader_blocks_the_sender_early_and_cancel_closes_the_generator() -> None:
    watched = Watched()
    async with echo_server(S=("server_stream", watched.flood)) as echo, asyncio.timeout(BOUND_S):
        call = echo.server_stream("S")(b"")
        await anext(aiter(call))
        await eventually(lambda: watched.sent > 100)
        before = -1
        while before != watched.sent:
            before = watched.sent
            await asyncio.sleep(0.2)
        # 200-byte messages: without the channel's options 20,000 and more are sent ahead.
        assert watched.sent < 2_000
        call.cancel()
        await eventually(lambda: watched.finished)
        assert watched.ended == ["GeneratorExit"]
        await eventually(lambda: code_count(echo, "S", "CANCELLED") == 1)
        assert in_flight(echo) == 0


async def test_a_port_is_never_shared_silently() -> None:
    first, second = create_server(), create_server()
    port = first.add_insecure_port("127.0.0.1:0")
    await first.start()
    with pytest.raises(RuntimeError, match=str(port)):
        second.add_insecure_port(f"127.0.0.1:{port}")
    await first.stop(0)


async def test_a_flooded_server_is_pushed_back_as_well() -> None:
    gate = asyncio.Event()

    async def read_late(requests: AsyncIterator[bytes], context: Any) -> bytes:
        await gate.wait()
        return str([len(r) async for r in requests].__len__()).encode()

    sent = 0
    async with echo_server(C=("client_stream", read_late)) as echo, asyncio.timeout(BOUND_S):
        call = echo.client_stream("C")()

        async def flood() -> None:
            nonlocal sent
            for _ in range(20_000):
                await call.write(b"x" * 200)
                sent += 1
            await call.done_writing()

        flooding = asyncio.ensure_future(flood())
        await eventually(lambda: sent > 100)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 2_000
        flooding.cancel()
        call.cancel()
        gate.set()
        await asyncio.gather(flooding, return_exceptions=True)


async def test_a_streaming_handler_that_swallows_its_cancellation_is_still_cancelled() -> None:
    swallowed = asyncio.Event()

    async def swallow(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"started"
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            swallowed.set()

    async with echo_server(S=("server_stream", swallow)) as echo, asyncio.timeout(BOUND_S):
        call = echo.server_stream("S")(b"")
        await anext(aiter(call))
        call.cancel()
        await swallowed.wait()
        await eventually(lambda: code_count(echo, "S", "CANCELLED") == 1)
        assert code_count(echo, "S", "OK") == 0


async def test_server_stop_with_an_open_stream_gives_grace_then_cancels() -> None:
    watched = Watched()
    async with echo_server(S=("server_stream", watched.wait)) as echo, asyncio.timeout(BOUND_S):
        call = echo.server_stream("S")(b"")
        await anext(aiter(call))
        stopping = asyncio.ensure_future(echo.server.stop(0.3))
        await asyncio.sleep(0.1)
        assert not watched.finished
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(call))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        told = from_rpc_error(caught.value, unavailable_as=Reason.WORKER_LOST, peer="worker")
        assert told.reason is Reason.WORKER_LOST
        await stopping
        await eventually(lambda: watched.finished)
        assert watched.ended == ["CancelledError"]


async def test_the_deadline_shrinks_from_hop_to_hop() -> None:
    seen: list[float | None] = []

    async def inner_handler(request: bytes, context: Any) -> bytes:
        seen.append(remaining_s())
        return b""

    async with echo_server(U=("unary", inner_handler)) as inner:

        async def outer_handler(request: bytes, context: Any) -> bytes:
            seen.append(remaining_s())
            return bytes(await inner.unary("U")(b"", timeout=100))

        async with echo_server(U=("unary", outer_handler)) as outer:
            await outer.unary("U")(b"", timeout=2)
    outer_left, inner_left = seen
    assert outer_left is not None
    assert inner_left is not None
    # gRPC rounds a timeout on the wire up by as much as 1 %.
    assert inner_left < outer_left * 1.02 < 2.2


async def test_a_unary_call_without_a_deadline_is_bounded_by_the_server() -> None:
    watched = Watched()
    async with (
        echo_server(default_deadline_s=0.1, U=("unary", watched.sleep)) as echo,
        asyncio.timeout(BOUND_S),
    ):
        raw: Any = grpc.aio.insecure_channel(echo.address)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw.unary_unary(f"/{SERVICE}/U")(b"")
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "0.1 s" in str(caught.value.details())
        assert watched.finished
        await raw.close()


async def test_a_channel_gives_unary_calls_a_deadline() -> None:
    seen: list[float | None] = []

    async def note(request: bytes, context: Any) -> bytes:
        seen.append(context.time_remaining())
        return b""

    async with echo_server(U=("unary", note)) as echo:
        await echo.unary("U")(b"")
        await echo.unary("U")(b"", timeout=3)
    assert seen[0] is not None
    assert 9 < seen[0] < 10.5
    assert seen[1] is not None
    assert 2 < seen[1] < 3.5


async def test_an_oversized_request_is_refused_with_both_numbers_and_the_next_works() -> None:
    async with echo_server(U=("unary", unary)) as echo:
        big = open_channel(echo.address, name="echo", max_message_bytes=64 * 1024 * 1024)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await big.unary_unary(f"/{SERVICE}/U")(b"x" * (10 * 1024 * 1024))
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert told.reason is Reason.BODY_TOO_LARGE
        assert "10485760" in told.message
        assert "8388608" in told.message
        assert await big.unary_unary(f"/{SERVICE}/U")(b"a") == b"aa"
        await big.close()


async def test_a_huge_error_still_arrives_as_itself() -> None:
    violations = [
        Violation(f"limit-{n}", "tpm", "tokens", "tenant", n, n, n, n, "k" * 1000)
        for n in range(1, 60)
    ]
    error = LimitExceeded(Reason.TOKEN_LIMIT_EXCEEDED, "m" * 50_000, violations, retry_after_s=None)
    async with echo_server(**raising(error)) as echo:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await echo.unary("U")(b"")
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (RETRY_PUSHBACK, "-1") in tuple(caught.value.trailing_metadata())
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert isinstance(told, LimitExceeded)
        assert told.message.startswith("mmm")
        assert len(told.violations) == 16


async def test_an_error_text_in_any_script_arrives_unharmed() -> None:
    text = "模型 “x” 不存在 🙂\nsecond line"
    async with echo_server(**raising(WeirError(Reason.MODEL_NOT_FOUND, text))) as echo:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await echo.unary("U")(b"")
        assert caught.value.details() == text
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert (told.reason, told.message) == (Reason.MODEL_NOT_FOUND, text)
