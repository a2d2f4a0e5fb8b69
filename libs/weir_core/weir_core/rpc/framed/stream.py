"""The client's end of a framed stream, kept connected."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

import grpc

from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.framed.backoff import Backoff
from weir_core.rpc.framed.connection import FramedConnection, protobuf_size
from weir_core.rpc.framed.errors import StreamClosed
from weir_core.rpc.framed.options import FramedOptions
from weir_core.rpc.framed.writer import FramedWriter
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger

ItemT = TypeVar("ItemT")
OutT = TypeVar("OutT")
InT = TypeVar("InT")

_WRITE_FAILED = "Internal error from Core"

_log = get_logger(__name__)


class FramedStream(Generic[ItemT, OutT, InT]):
    """Opens a bidirectional call, and opens it again when it ends, until `stop`.

    Items belong to one connection: those still queued when it is lost are dropped, and
    `on_lost` tells whoever has requests on it. Nothing is taken while not connected.

    Args:
        open_call: starts the call, such as `lambda: stub.Execute()`.
        coalesce: makes one frame of the items that wait.
        ping: makes an empty frame.
        on_frame: called with every frame; it must not block (see `FramedConnection.run`).
        on_connect: called with the new connection's writer before anything else is sent; puts
            the hello, if there is one. The connection counts as made once the server has sent
            its first frame.
        on_lost: called once for each `on_connect`, with the reason.
        name: of the peer.
        unavailable_as: reason of the errors when the peer cannot be reached.
        size_of: bytes of an item.
        options: bounds.
        backoff: waiting times between attempts.
    """

    def __init__(
        self,
        open_call: Callable[[], grpc.aio.StreamStreamCall[OutT, InT]],
        *,
        coalesce: Callable[[Sequence[ItemT]], OutT],
        ping: Callable[[], OutT],
        on_frame: Callable[[InT], object],
        on_connect: Callable[[FramedWriter[ItemT, OutT]], object] | None = None,
        on_lost: Callable[[WeirError], object] | None = None,
        name: str,
        unavailable_as: Reason,
        size_of: Callable[[ItemT], int] = protobuf_size,  # type: ignore[assignment]
        options: FramedOptions | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._open_call = open_call
        self._coalesce = coalesce
        self._ping = ping
        self._on_frame = on_frame
        self._on_connect = on_connect or (lambda _: None)
        self._on_lost = on_lost or (lambda _: None)
        self._name = name
        self._unavailable_as = unavailable_as
        self._size_of = size_of
        self._options = options or FramedOptions()
        self._backoff = backoff or Backoff()
        self._writer: FramedWriter[ItemT, OutT] | None = None
        self._connection: FramedConnection[ItemT, OutT, InT] | None = None
        self._connected = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self.last_error: WeirError | None = None
        """Why the latest connection was lost or could not be made."""

    @property
    def connected(self) -> bool:
        """Whether items are taken."""
        return self._connected.is_set()

    def start(self) -> None:
        """Starts connecting, in a task. Call it once, inside the event loop."""
        # A context of its own: the deadline and trace of whoever starts it are not its own.
        self._task = asyncio.create_task(
            self._keep_connected(), name=f"stream-{self._name}", context=Context()
        )

    async def stop(self, why: str = "shutting down") -> None:
        """Sends what is queued (within `stall_s`), ends the call and stays down."""
        self._stopping = True
        self._connected.clear()
        if self._task is None:
            return
        if self._writer is not None:
            self._writer.close(why)
            limit_s = self._options.stall_s + self._options.goodbye_s
            await asyncio.wait({self._task}, timeout=limit_s)
        await end_task(self._task)

    def expect_frames(self, every_s: float) -> None:
        """The present peer is lost after so long without a frame, if `options` allow it longer.

        For `on_frame`: a peer may say that it sends heartbeats more often.
        """
        if self._connection is not None:
            self._connection.silence_s = min(self._options.silence_s, every_s)

    async def wait_connected(self, timeout_s: float) -> None:
        """Returns once connected; raises WeirError(`unavailable_as`) after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._connected.wait()
        except TimeoutError:
            raise self._unavailable(f"not connected within {timeout_s} s") from None

    async def put(self, item: ItemT) -> None:
        """Queues an item once there is room. Raises WeirError(`unavailable_as`)."""
        writer = self._current()
        try:
            await writer.put(item)
        except StreamClosed as exc:
            raise self._unavailable(exc.message) from None

    def put_nowait(self, item: ItemT) -> None:
        """Queues an item. Raises StreamFull, or WeirError(`unavailable_as`)."""
        try:
            self._current().put_nowait(item)
        except StreamClosed as exc:
            raise self._unavailable(exc.message) from None

    def put_control(self, item: ItemT) -> None:
        """Queues a rare item even when full. Raises WeirError(`unavailable_as`)."""
        try:
            self._current().put_control(item)
        except StreamClosed as exc:
            raise self._unavailable(exc.message) from None

    def _current(self) -> FramedWriter[ItemT, OutT]:
        if self._writer is None or not self._connected.is_set():
            raise self._unavailable("not connected")
        return self._writer

    def _unavailable(self, why: str) -> WeirError:
        return WeirError(self._unavailable_as, f"{self._name} is unavailable: {why}")

    async def _keep_connected(self) -> None:
        while not self._stopping:
            error = await self._connect_once()
            self._note(error)
            if not self._stopping:
                await asyncio.sleep(self._backoff.next_s())

    def _note(self, error: WeirError) -> None:
        news = self.last_error is None or self.last_error.reason is not error.reason
        self.last_error = error
        if news and not self._stopping:
            _log.warning("stream_lost", peer=self._name, reason=error.reason, why=error.message)

    async def _connect_once(self) -> WeirError:
        """One connection from call to end; returns why it ended."""
        connection: FramedConnection[ItemT, OutT, InT] = FramedConnection(
            coalesce=self._coalesce,
            ping=self._ping,
            name=self._name,
            size_of=self._size_of,
            options=self._options,
        )
        self._writer, self._connection = connection.writer, connection
        call: grpc.aio.StreamStreamCall[OutT, InT] | None = None
        error = self._unavailable("stopped")
        try:
            self._on_connect(connection.writer)
            call = self._open_call()
            await connection.run(call.write, call, self._heard, half_close=call.done_writing)
            error = await self._ending_of(call)
        except grpc.aio.AioRpcError as exc:
            error = self._told_by(exc)
        except WeirError as exc:
            error = exc
        except Exception as exc:
            _log.error("stream_failed", peer=self._name, exc_info=exc)
            error = self._unavailable(f"{type(exc).__name__} in the stream's own code")
        finally:
            self._connected.clear()
            self._writer = self._connection = None
            if call is not None:
                call.cancel()
            self._tell_lost(error)
        return error

    def _told_by(self, exc: grpc.aio.AioRpcError) -> WeirError:
        # grpc.aio puts a status of its own in the place of the server's when a write meets the
        # end of the call, as when the server refuses a stream before it has read the first frame.
        if (exc.details() or "").startswith(_WRITE_FAILED):
            return self._unavailable("it ended the stream before it had read what was sent")
        return from_rpc_error(exc, unavailable_as=self._unavailable_as, peer=self._name)

    def _tell_lost(self, error: WeirError) -> None:
        try:
            self._on_lost(error)
        except Exception as exc:
            _log.error("on_lost_failed", peer=self._name, exc_info=exc)

    async def _ending_of(self, call: grpc.aio.StreamStreamCall[OutT, InT]) -> WeirError:
        if not call.done():
            return self._unavailable("stopped")
        code = await call.code()
        if code is grpc.StatusCode.OK:
            return self._unavailable("it ended the stream")
        return self._unavailable(f"it ended the stream with {code.name}")

    def _heard(self, frame: InT) -> None:
        if not self._connected.is_set() and not self._stopping:
            self._connected.set()
            self._backoff.reset()
            self.last_error = None
            _log.info("stream_connected", peer=self._name)
        self._on_frame(frame)
