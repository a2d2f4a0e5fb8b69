"""One framed stream while it is attached: used as it is by servers, and by `FramedStream`."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import grpc
from google.protobuf.message import Message

from weir_core.errors import WeirError
from weir_core.rpc.framed.errors import PeerLost
from weir_core.rpc.framed.options import FramedOptions
from weir_core.rpc.framed.writer import FramedWriter
from weir_core.telemetry.logs import get_logger

ItemT = TypeVar("ItemT")
OutT = TypeVar("OutT")
InT = TypeVar("InT")

_log = get_logger(__name__)

_LAST_WRITE_S = 1.0


def protobuf_size(item: Message) -> int:
    """`size_of` for items that are protobuf messages."""
    return item.ByteSize()


class FramedConnection(Generic[ItemT, OutT, InT]):
    """A writer task and a read loop over one bidirectional RPC.

    In a servicer:

        connection = FramedConnection(coalesce=..., ping=ExecuteResponse, name="gateway", ...)
        session = Session(connection.writer)
        try:
            await connection.run(context.write, request_iterator, session.on_frame)
        finally:
            session.release()

    Args:
        coalesce: makes one frame of the items that wait.
        ping: makes an empty frame.
        name: of the peer, for errors and logs.
        size_of: bytes of an item.
        options: bounds.
    """

    def __init__(
        self,
        *,
        coalesce: Callable[[Sequence[ItemT]], OutT],
        ping: Callable[[], OutT],
        name: str,
        size_of: Callable[[ItemT], int] = protobuf_size,  # type: ignore[assignment]
        options: FramedOptions | None = None,
    ) -> None:
        self.options = options or FramedOptions()
        self.silence_s = self.options.silence_s
        """A peer that was not heard for so long is lost; may be changed by `on_frame`."""
        self.name = name
        self._ping = ping
        self.writer: FramedWriter[ItemT, OutT] = FramedWriter(
            coalesce=coalesce, ping=ping, size_of=size_of, name=name, options=self.options
        )

    async def run(
        self,
        send: Callable[[OutT], Awaitable[object]],
        frames: AsyncIterable[InT],
        on_frame: Callable[[InT], object],
        *,
        half_close: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Moves frames both ways until either side ends the stream. Call it once.

        Args:
            send: writes one frame, such as `context.write`.
            frames: what the peer sends; never read elsewhere at the same time.
            on_frame: called with every frame, pings too, in order. It must not block: to wait
                would hold up every request on the stream. A WeirError that it raises ends the
                stream; any other exception is logged and costs that frame only.
            half_close: a client's `done_writing`, called after the last frame.

        Returns when the peer ended the stream, or when `writer.close` was called and the rest
        is written. A peer that cancels looks like one that ended it. Raises PeerLost, the
        WeirError of `on_frame`, and what reading or writing raises. Afterwards the writer is
        closed.
        """
        reader = asyncio.ensure_future(self._read(frames, on_frame))
        writer = asyncio.ensure_future(self._write(send, half_close))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if half_close is not None and _succeeded(writer):
                await asyncio.wait({reader}, timeout=self.options.goodbye_s)
        finally:
            self.writer.close("the stream has ended", discard=True)
            await _end(reader, writer)
        _raise_first(reader, writer)

    async def _write(
        self,
        send: Callable[[OutT], Awaitable[object]],
        half_close: Callable[[], Awaitable[object]] | None,
    ) -> None:
        # The first frame goes out at once: a client takes it as proof that it is connected.
        if not len(self.writer):
            await send(self._ping())
        await self.writer.run(send)
        if half_close is not None:
            await half_close()

    async def _read(self, frames: AsyncIterable[InT], on_frame: Callable[[InT], object]) -> None:
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(self.silence_s)
        try:
            async with limit:
                async for frame in frames:
                    self._handle(frame, on_frame)
                    limit.reschedule(loop.time() + self.silence_s)
        except TimeoutError:
            if not limit.expired():
                raise
            raise PeerLost(self.name, f"it has been silent for {self.silence_s} s") from None

    def _handle(self, frame: InT, on_frame: Callable[[InT], object]) -> None:
        try:
            on_frame(frame)
        except WeirError:
            raise
        except Exception as exc:
            _log.error("frame_failed", peer=self.name, frame=type(frame).__name__, exc_info=exc)


def _succeeded(task: asyncio.Future[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _end(reader: asyncio.Future[None], writer: asyncio.Future[None]) -> None:
    """Ends both tasks; the write under way is let finish.

    When a server's first write is cancelled, grpc.aio believes that the initial metadata is
    unsent, sends it again with the status, and the client never learns of the end.
    """
    reader.cancel()
    try:
        await asyncio.wait({writer}, timeout=_LAST_WRITE_S)
    finally:
        for task in (reader, writer):
            task.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)


def _raise_first(reader: asyncio.Future[None], writer: asyncio.Future[None]) -> None:
    """The reader's error comes first: it holds the peer's status."""
    for task in (reader, writer):
        if task.cancelled():
            continue
        error = task.exception()
        if error is not None and not _is_end(error):
            raise error


def _is_end(error: BaseException) -> bool:
    """A failed write alone says only that the peer has gone."""
    return isinstance(error, grpc.aio.InternalError | grpc.aio.UsageError | grpc.aio.AbortError)
