"""Framed streams over real channels: both ends, loss in every form, and coming back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from pydantic import SecretStr

from tests.core.freezable_proxy import freezable_proxy
from tests.core.support import SERVICE, Echo, echo_server, eventually
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.channel import open_channel
from weir_core.rpc.framed import (
    Backoff,
    FramedConnection,
    FramedOptions,
    FramedStream,
    FramedWriter,
    Mailbox,
    StreamFull,
)

# Losses are noticed soon by FAST; under STEADY a busy machine causes none.
STEADY = FramedOptions(heartbeat_s=0.5, silence_s=20, stall_s=20, goodbye_s=5)
FAST = FramedOptions(heartbeat_s=0.1, silence_s=2, stall_s=2, goodbye_s=0.5)
STALLS = FramedOptions(heartbeat_s=0.1, silence_s=30, stall_s=0.5, goodbye_s=0.5)


def join(items: Sequence[bytes]) -> bytes:
    return b"|".join(items)


def ping() -> bytes:
    return b""


def items_of(frame: bytes) -> list[bytes]:
    return frame.split(b"|") if frame else []


@dataclass
class Server:
    """The server's side of every stream: what it heard and how each stream ended."""

    options: FramedOptions = STEADY
    echo: bool = True
    heard: list[bytes] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    writers: list[FramedWriter[bytes, bytes]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    on_item: Callable[[bytes], object] = lambda item: None

    async def attach(self, requests: AsyncIterator[bytes], context: Any) -> None:
        connection: FramedConnection[bytes, bytes, bytes] = FramedConnection(
            coalesce=join, ping=ping, name="client", size_of=len, options=self.options
        )
        self.writers.append(connection.writer)

        def on_frame(frame: bytes) -> None:
            self.frames.append(frame)
            for item in items_of(frame):
                self.on_item(item)
                self.heard.append(item)
                if self.echo:
                    connection.writer.put_nowait(b"re:" + item)

        outcome = "returned"
        try:
            await connection.run(context.write, requests, on_frame)
        except BaseException as exc:
            outcome = type(exc).__name__
            raise
        finally:
            self.ended.append(outcome)


@dataclass
class Client:
    """The client's side: a stream and its history."""

    stream: FramedStream[bytes, bytes, bytes]
    heard: list[bytes]
    events: list[str]
    lost: list[WeirError]


def client_of(
    open_call: Callable[[], Any],
    *,
    hello: bytes | None = b"hello",
    options: FramedOptions = STEADY,
) -> Client:
    heard: list[bytes] = []
    events: list[str] = []
    lost: list[WeirError] = []

    def on_connect(writer: FramedWriter[bytes, bytes]) -> None:
        events.append("connect")
        if hello is not None:
            writer.put_nowait(hello)

    def on_lost(error: WeirError) -> None:
        events.append("lost")
        lost.append(error)

    stream: FramedStream[bytes, bytes, bytes] = FramedStream(
        open_call,
        coalesce=join,
        ping=ping,
        on_frame=lambda frame: heard.extend(items_of(frame)),
        on_connect=on_connect,
        on_lost=on_lost,
        name="server",
        unavailable_as=Reason.SCHEDULER_UNAVAILABLE,
        size_of=len,
        options=options,
        backoff=Backoff(first_s=0.02, most_s=0.2),
    )
    return Client(stream, heard, events, lost)


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[tuple[Echo, Client]]:
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        client = client_of(lambda: echo.bidi("Attach")(), options=server.options)
        client.stream.start()
        try:
            await client.stream.wait_connected(5)
            yield echo, client
        finally:
            await client.stream.stop()


async def test_the_hello_comes_first_and_items_go_both_ways() -> None:
    server = Server()
    async with connected(server) as (_, client):
        client.stream.put_nowait(b"a")
        await client.stream.put(b"b")
        await eventually(lambda: client.heard == [b"re:hello", b"re:a", b"re:b"])
        assert server.heard[0] == b"hello"
    assert client.events == ["connect", "lost"]
    assert server.ended == ["returned"]


async def test_items_put_in_one_go_travel_in_one_frame() -> None:
    server = Server(echo=False)
    async with connected(server) as (_, client):
        await eventually(lambda: server.heard == [b"hello"])
        for n in range(500):
            client.stream.put_nowait(b"%d" % n)
        await eventually(lambda: len(server.heard) == 501)
        assert len([f for f in server.frames if f]) <= 3
        for n in range(500):
            server.writers[0].put_nowait(b"%d" % n)
        await eventually(lambda: len(client.heard) == 500)
        assert client.heard == [b"%d" % n for n in range(500)]


async def test_an_idle_stream_stays_up_by_heartbeats_past_the_silence_bound() -> None:
    options = FramedOptions(heartbeat_s=0.1, silence_s=3, stall_s=3)
    server = Server(options=options)
    async with connected(server) as (_, client):
        await asyncio.sleep(1.2 * options.silence_s)
        assert client.stream.connected
        assert client.events == ["connect"]
        assert server.frames.count(b"") >= 3


async def test_stop_sends_what_is_queued_and_the_server_sees_an_orderly_end() -> None:
    server = Server(echo=False)
    async with connected(server) as (_, client):
        for _n in range(2_000):
            client.stream.put_nowait(b"x" * 100)
        client.stream.put_control(b"last")
    await eventually(lambda: server.ended == ["returned"])
    assert server.heard[-1] == b"last"
    assert len(server.heard) == 2_002


async def test_a_client_comes_back_after_the_server_was_restarted() -> None:
    server = Server()
    async with echo_server(Attach=("bidi", server.attach)) as first:
        port = int(first.address.rpartition(":")[2])
        channel = open_channel(first.address, name="server")
        client = client_of(
            lambda: channel.stream_stream(f"/{SERVICE}/Attach")(),
        )
        client.stream.start()
        await client.stream.wait_connected(5)
    await eventually(lambda: client.events == ["connect", "lost"] or len(client.events) > 2)
    assert client.lost[0].reason is Reason.SCHEDULER_UNAVAILABLE
    with pytest.raises(WeirError) as caught:
        client.stream.put_nowait(b"too late")
    assert caught.value.reason is Reason.SCHEDULER_UNAVAILABLE
    async with echo_server(port=port, Attach=("bidi", server.attach)):
        await client.stream.wait_connected(10)
        client.stream.put_nowait(b"again")
        await eventually(lambda: b"re:again" in client.heard)
        assert client.stream.last_error is None
        await client.stream.stop()
    await channel.close()
    assert client.events.count("connect") == client.events.count("lost")
    assert b"too late" not in server.heard


async def test_started_before_the_server_it_connects_soon_after() -> None:
    server = Server()
    async with echo_server(Attach=("bidi", server.attach)) as probe:
        port = int(probe.address.rpartition(":")[2])
    channel = open_channel(f"127.0.0.1:{port}", name="server")
    client = client_of(lambda: channel.stream_stream(f"/{SERVICE}/Attach")())
    client.stream.start()
    with pytest.raises(WeirError) as caught:
        await client.stream.wait_connected(0.3)
    assert caught.value.reason is Reason.SCHEDULER_UNAVAILABLE
    async with echo_server(port=port, Attach=("bidi", server.attach)):
        began = asyncio.get_running_loop().time()
        await client.stream.wait_connected(10)
        assert asyncio.get_running_loop().time() - began < 4
        await client.stream.stop()
    await channel.close()


async def test_a_server_that_falls_silent_is_lost_in_bounded_time_and_so_is_its_client() -> None:
    server = Server(options=FAST)
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        port = int(echo.address.rpartition(":")[2])
        async with freezable_proxy(port) as proxy:
            channel = open_channel(f"127.0.0.1:{proxy.port}", name="server")
            client = client_of(lambda: channel.stream_stream(f"/{SERVICE}/Attach")(), options=FAST)
            client.stream.start()
            await client.stream.wait_connected(5)
            proxy.freeze()
            await eventually(lambda: client.lost != [], timeout_s=20)
            await eventually(lambda: server.ended != [], timeout_s=20)
            assert "silent" in client.lost[0].message
            assert server.ended == ["PeerLost"]
            proxy.thaw()
            await client.stream.wait_connected(10)
            await client.stream.stop()
            await channel.close()


async def test_a_peer_that_promised_frames_is_lost_when_they_do_not_come() -> None:
    """Sooner than the stream's own bound; the next connection begins with that bound again."""
    server = Server(options=FAST)
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        port = int(echo.address.rpartition(":")[2])
        async with freezable_proxy(port) as proxy:
            channel = open_channel(f"127.0.0.1:{proxy.port}", name="server")
            client = client_of(lambda: channel.stream_stream(f"/{SERVICE}/Attach")())
            client.stream.start()
            await client.stream.wait_connected(5)
            client.stream.expect_frames(2)
            # The bound counts from the next frame.
            client.stream.put_nowait(b"hear me")
            await eventually(lambda: b"re:hear me" in client.heard)
            proxy.freeze()
            await eventually(lambda: client.lost != [], timeout_s=20)
            assert "silent for 2 s" in client.lost[0].message
            await client.stream.stop()
            await channel.close()


async def test_a_cut_connection_is_lost_at_once() -> None:
    server = Server()
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        port = int(echo.address.rpartition(":")[2])
        async with freezable_proxy(port) as proxy:
            channel = open_channel(f"127.0.0.1:{proxy.port}", name="server")
            client = client_of(
                lambda: channel.stream_stream(f"/{SERVICE}/Attach")(), options=STEADY
            )
            client.stream.start()
            await client.stream.wait_connected(5)
            proxy.cut()
            await eventually(lambda: client.lost != [], timeout_s=20)
            await eventually(lambda: server.ended != [], timeout_s=20)
            await client.stream.wait_connected(10)
            await client.stream.stop()
            await channel.close()


async def test_a_peer_that_pings_but_does_not_read_is_lost_after_the_stall_bound() -> None:
    async def deaf(requests: AsyncIterator[bytes], context: Any) -> None:
        while True:
            await context.write(b"")
            await asyncio.sleep(0.05)

    async with echo_server(Attach=("bidi", deaf)) as echo:
        client = client_of(lambda: echo.bidi("Attach")(), options=STALLS)
        client.stream.start()
        await client.stream.wait_connected(5)
        for _ in range(300):
            client.stream.put_nowait(b"x" * 1_000)
        await eventually(lambda: client.lost != [], timeout_s=20)
        assert "read nothing" in client.lost[0].message
        await client.stream.stop()


async def test_a_client_that_does_not_read_blocks_only_its_own_stream() -> None:
    stalls = FramedOptions(heartbeat_s=0.5, silence_s=20, stall_s=3)
    server = Server(options=stalls)
    async with connected(server) as (echo, client):
        stalled = echo.bidi("Attach")()
        await stalled.write(b"")

        async def keep_alive() -> None:
            while True:
                await stalled.write(b"")
                await asyncio.sleep(0.05)

        pinging = asyncio.ensure_future(keep_alive())
        await eventually(lambda: len(server.writers) == 2)
        for _ in range(400):
            server.writers[1].put_nowait(b"x" * 1_000)
        client.stream.put_nowait(b"unharmed")
        await eventually(lambda: b"re:unharmed" in client.heard, timeout_s=2.9)
        await eventually(lambda: "PeerLost" in server.ended, timeout_s=20)
        pinging.cancel()
        stalled.cancel()
        await asyncio.gather(pinging, return_exceptions=True)


async def test_puts_wait_while_the_peer_is_slow_and_memory_stays_bounded() -> None:
    gate = asyncio.Event()
    options = FramedOptions(max_items=50, max_frame_items=10, max_frame_bytes=20_000)

    async def slow(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(b"")
        await gate.wait()
        async for frame in requests:
            got.extend(items_of(frame))

    got: list[bytes] = []
    async with echo_server(Attach=("bidi", slow)) as echo:
        client = client_of(lambda: echo.bidi("Attach")(), hello=None, options=options)
        client.stream.start()
        await client.stream.wait_connected(5)
        put = 0

        async def produce() -> None:
            nonlocal put
            for n in range(500):
                await client.stream.put(b"%03d" % n + b"x" * 1_000)
                put += 1

        producing = asyncio.ensure_future(produce())
        await eventually(lambda: put > 50)
        before = -1
        while before != put:
            before = put
            await asyncio.sleep(0.1)
        assert put < 400
        with pytest.raises(StreamFull):
            client.stream.put_nowait(b"y" * 1_000)
        gate.set()
        async with asyncio.timeout(5):
            await producing
        await client.stream.stop()
        assert [item[:3] for item in got] == [b"%03d" % n for n in range(500)]


async def test_an_exception_over_one_frame_costs_that_frame_only() -> None:
    def picky(item: bytes) -> None:
        if item == b"bad":
            raise KeyError(item)

    server = Server(on_item=picky)
    async with connected(server) as (_, client):
        client.stream.put_nowait(b"bad")
        await eventually(lambda: any(b"bad" in frame for frame in server.frames))
        client.stream.put_nowait(b"good")
        await eventually(lambda: b"re:good" in client.heard)
        assert b"re:bad" not in client.heard
        assert client.events == ["connect"]


async def test_a_refusal_by_the_server_ends_the_stream_with_its_reason() -> None:
    def refuse(item: bytes) -> None:
        raise InvalidField("worker_id", item.decode(), "known")

    async with echo_server(Attach=("bidi", Server(on_item=refuse).attach)) as echo:
        client = client_of(lambda: echo.bidi("Attach")())
        client.stream.start()
        await eventually(lambda: client.lost != [])
        assert isinstance(client.lost[0], InvalidField)
        assert client.lost[0].field == "worker_id"
        await client.stream.stop()


async def test_an_error_while_the_first_write_is_under_way_lets_that_write_finish() -> None:
    # A cancelled first write would make grpc.aio lose the status that follows.
    wrote: list[str] = []

    async def slow_send(frame: bytes) -> None:
        try:
            await asyncio.sleep(0.1)
            wrote.append("whole")
        except asyncio.CancelledError:
            wrote.append("cancelled")
            raise

    async def frames() -> AsyncIterator[bytes]:
        yield b"hello"
        await asyncio.sleep(60)

    def refuse(frame: bytes) -> None:
        raise InvalidField("worker_id", frame.decode(), "known")

    connection: FramedConnection[bytes, bytes, bytes] = FramedConnection(
        coalesce=join, ping=ping, name="client", size_of=len, options=STEADY
    )
    with pytest.raises(InvalidField):
        await connection.run(slow_send, frames(), refuse)
    assert wrote == ["whole"]
    assert connection.writer.closed


async def test_a_write_that_met_the_end_of_the_call_is_not_told_as_an_internal_error() -> None:
    # So grpc.aio reports it; what the server said is lost there.
    def open_call() -> Any:
        none = grpc.aio.Metadata()
        internal = grpc.StatusCode.INTERNAL
        raise grpc.aio.AioRpcError(internal, none, none, details="Internal error from Core")

    client = client_of(open_call)
    client.stream.start()
    await eventually(lambda: client.lost != [])
    assert "ended the stream before it had read" in client.lost[0].message
    assert client.lost[0].reason is not Reason.INTERNAL
    await client.stream.stop()


async def test_a_wrong_token_is_told_and_tried_again_until_it_is_right() -> None:
    server = Server()
    tokens = [SecretStr("right")]
    async with echo_server(tokens=tokens, Attach=("bidi", server.attach)) as echo:
        wrong = open_channel(echo.address, name="server", token=SecretStr("wrong"))
        right = open_channel(echo.address, name="server", token=SecretStr("right"))
        channels = [wrong, wrong, right]
        client = client_of(
            lambda: channels.pop(0).stream_stream(f"/{SERVICE}/Attach")(),
        )
        client.stream.start()
        await client.stream.wait_connected(5)
        assert [e.reason for e in client.lost] == [Reason.API_KEY_INVALID] * 2
        await client.stream.stop()
        for channel in (wrong, right):
            await channel.close()


async def test_a_fault_in_the_owners_callbacks_does_not_end_reconnecting() -> None:
    server = Server()
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        calls = 0

        def open_call() -> Any:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise RuntimeError("not wired yet")
            return echo.bidi("Attach")()

        client = client_of(open_call)
        client.stream.start()
        await client.stream.wait_connected(5)
        await client.stream.stop()
        assert client.events == ["connect", "lost"] * 3


async def test_server_side_close_flushes_and_ends_the_call_with_ok() -> None:
    server = Server()
    async with connected(server) as (_, client):
        await eventually(lambda: b"re:hello" in client.heard)
        for n in range(100):
            server.writers[0].put_nowait(b"%d" % n)
        server.writers[0].close("draining")
        await eventually(lambda: b"99" in client.heard)
        await eventually(lambda: client.lost != [])
        assert client.lost[0].reason is Reason.SCHEDULER_UNAVAILABLE
        assert server.ended[0] == "returned"
        await client.stream.wait_connected(5)


async def test_server_stop_ends_the_handler_and_the_client_is_told() -> None:
    """Either end is right: gRPC tells of the end of the reads or of the cancel first."""
    server = Server()
    async with connected(server) as (echo, client):
        await echo.server.stop(0.1)
        await eventually(lambda: client.lost != [])
        await eventually(lambda: server.ended != [])
        assert server.ended in (["CancelledError"], ["returned"])


async def test_a_stream_started_within_a_request_does_not_inherit_its_deadline() -> None:
    from weir_core.rpc.deadline import budget

    server = Server()
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        client = client_of(lambda: echo.bidi("Attach")())
        with budget(0.2):
            client.stream.start()
            await client.stream.wait_connected(5)
        await asyncio.sleep(0.4)
        assert client.events == ["connect"]
        await client.stream.stop()


async def test_one_slow_request_holds_up_no_other_on_the_same_stream() -> None:
    boxes = {b"slow": Mailbox[bytes](4), b"fast": Mailbox[bytes](1_000)}
    overflowed: list[bytes] = []

    def deliver(frame: bytes) -> None:
        for item in items_of(frame):
            key = item.split(b":")[0]
            if not boxes[key].offer(item) and key not in overflowed:
                overflowed.append(key)
                boxes[key].close(WeirError(Reason.CANCELLED, "the reader is too slow"))

    server = Server(echo=False)
    async with echo_server(Attach=("bidi", server.attach)) as echo:
        stream: FramedStream[bytes, bytes, bytes] = FramedStream(
            lambda: echo.bidi("Attach")(),
            coalesce=join,
            ping=ping,
            on_frame=deliver,
            name="server",
            unavailable_as=Reason.WORKER_LOST,
            size_of=len,
            options=STEADY,
        )
        stream.start()
        await stream.wait_connected(5)
        for n in range(100):
            server.writers[0].put_nowait(b"slow:%d" % n)
            server.writers[0].put_nowait(b"fast:%d" % n)
        got = [await boxes[b"fast"].get(10) for _ in range(100)]
        assert got == [b"fast:%d" % n for n in range(100)]
        assert overflowed == [b"slow"]
        slow = boxes[b"slow"].items(10)
        assert [await anext(slow) for _ in range(4)] == [b"slow:%d" % n for n in range(4)]
        with pytest.raises(WeirError, match="too slow"):
            await anext(slow)
        await stream.stop()


async def test_a_mailbox_ends_in_order_and_a_wait_on_it_is_bounded() -> None:
    box: Mailbox[int] = Mailbox(2)
    assert box.offer(1)
    assert box.offer(2)
    assert not box.offer(3)
    box.close()
    assert not box.offer(4)
    assert [item async for item in box.items(1)] == [1, 2]
    with pytest.raises(WeirError) as caught:
        await Mailbox[int]().get(0.01)
    assert caught.value.reason is Reason.DEADLINE_EXCEEDED


def test_backoff_grows_with_jitter_and_starts_over() -> None:
    backoff = Backoff(first_s=0.1, most_s=1.0)
    waits = [backoff.next_s() for _ in range(10)]
    for wait, bound in zip(waits, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1, 1, 1], strict=True):
        assert bound / 2 <= wait <= bound
    backoff.reset()
    assert backoff.next_s() <= 0.1
