"""The sending half of a framed stream: a bounded queue and one task that writes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from weir_core.rpc.framed.errors import PeerLost, StreamClosed, StreamFull
from weir_core.rpc.framed.options import FramedOptions
from weir_core.stall_limit import StallLimit

ItemT = TypeVar("ItemT")
FrameT = TypeVar("FrameT")


class FramedWriter(Generic[ItemT, FrameT]):
    """Queues items and writes them as frames, in order; whatever waits goes in one frame.

    For one event loop. While a write is under way items gather, so that frames grow when the
    peer is slow and are sent at once when it is not.

    Args:
        coalesce: makes one frame of one or more items.
        ping: makes the frame that is sent when there was nothing else for `heartbeat_s`.
        size_of: bytes of an item, such as `Message.ByteSize`.
        name: of the peer, for errors.
        options: bounds.
    """

    def __init__(
        self,
        *,
        coalesce: Callable[[Sequence[ItemT]], FrameT],
        ping: Callable[[], FrameT],
        size_of: Callable[[ItemT], int],
        name: str,
        options: FramedOptions,
    ) -> None:
        self._coalesce = coalesce
        self._ping = ping
        self._size_of = size_of
        self._name = name
        self._options = options
        self._queue: deque[tuple[ItemT, int]] = deque()
        self._bytes = 0
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._idle = StallLimit(options.heartbeat_s)
        self._closed_because: str | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Summed size of the items that wait."""
        return self._bytes

    @property
    def closed(self) -> bool:
        """Whether items are no longer taken."""
        return self._closed_because is not None

    def put_nowait(self, item: ItemT) -> None:
        """Takes an item. Raises StreamFull or StreamClosed."""
        size = self._size_of(item)
        self._check_open()
        if not self._fits(size):
            raise StreamFull(self._name, len(self._queue), self._bytes)
        self._append(item, size)

    def put_control(self, item: ItemT) -> None:
        """Takes an item even when the queue is full. Raises StreamClosed.

        For rare items whose number the caller bounds itself, such as one abort a request.
        They keep their place in the order.
        """
        self._check_open()
        self._append(item, self._size_of(item))

    async def put(self, item: ItemT) -> None:
        """Takes an item once there is room, callers in turn. Raises StreamClosed.

        Waits `stall_s` at most: a peer that takes nothing for so long is lost.
        """
        size = self._size_of(item)
        async with self._turn:
            while not self.closed and not self._fits(size):
                self._room.clear()
                await self._room.wait()
            self._check_open()
            self._append(item, size)

    def close(self, why: str, *, discard: bool = False) -> None:
        """Takes no more items; what waits is still written unless `discard`. Idempotent."""
        if self._closed_because is None:
            self._closed_because = why
        if discard:
            self._queue.clear()
            self._bytes = 0
        self._work.set()
        self._room.set()

    async def run(self, send: Callable[[FrameT], Awaitable[object]]) -> None:
        """Writes frames with `send` until closed and empty. Run it once, in a task.

        Raises PeerLost when one write takes longer than `stall_s`, and what `send` raises.
        """
        limit = StallLimit(self._options.stall_s)
        try:
            while True:
                frame = await self._next_frame()
                if frame is None:
                    return
                await self._send(send, frame, limit)
        finally:
            limit.close()
            self._idle.close()

    async def _send(
        self, send: Callable[[FrameT], Awaitable[object]], frame: FrameT, limit: StallLimit
    ) -> None:
        try:
            with limit:
                await send(frame)
        except TimeoutError:
            if not limit.expired:
                raise
            raise PeerLost(
                self._name, f"it has read nothing for {self._options.stall_s} s"
            ) from None

    async def _next_frame(self) -> FrameT | None:
        if not self._queue and not self.closed and not await self._wait_for_work():
            return self._ping()
        if not self._queue:
            return None
        return self._coalesce(self._take())

    async def _wait_for_work(self) -> bool:
        """False when there was none for `heartbeat_s`."""
        self._work.clear()
        try:
            with self._idle:
                await self._work.wait()
        except TimeoutError:
            return False
        # What others put in this turn of the event loop goes along: a frame costs more than a turn.
        await asyncio.sleep(0)
        return True

    def _take(self) -> list[ItemT]:
        item, taken_bytes = self._queue.popleft()
        taken = [item]
        while self._queue and len(taken) < self._options.max_frame_items:
            if taken_bytes + self._queue[0][1] > self._options.max_frame_bytes:
                break
            item, size = self._queue.popleft()
            taken.append(item)
            taken_bytes += size
        self._bytes -= taken_bytes
        self._room.set()
        return taken

    def _append(self, item: ItemT, size: int) -> None:
        self._queue.append((item, size))
        self._bytes += size
        self._work.set()

    def _fits(self, size: int) -> bool:
        if not self._queue:
            return True
        return (
            len(self._queue) < self._options.max_items
            and self._bytes + size <= self._options.max_bytes
        )

    def _check_open(self) -> None:
        if self._closed_because is not None:
            raise StreamClosed(self._name, self._closed_because)
