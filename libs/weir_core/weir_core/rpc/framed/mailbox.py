"""What has arrived for one request on a shared stream."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from weir_core.errors import Reason, WeirError

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A bounded queue between a stream's `on_frame` and the one task of a request.

    `offer` never waits, so a request whose client reads slowly holds up nobody else: when its
    mailbox is full its owner aborts that request.

    Args:
        max_items: items that may wait.
    """

    def __init__(self, max_items: int = 1_024) -> None:
        self._max_items = max_items
        self._items: deque[T] = deque()
        self._changed = asyncio.Event()
        self._closed = False
        self._error: WeirError | None = None

    def __len__(self) -> int:
        return len(self._items)

    def offer(self, item: T) -> bool:
        """Adds an item; False, and nothing added, when the mailbox is full or closed."""
        if self._closed or len(self._items) >= self._max_items:
            return False
        self._items.append(item)
        self._changed.set()
        return True

    def close(self, error: WeirError | None = None) -> None:
        """No more will come; what waits can still be read, then `error` is raised. Idempotent."""
        if not self._closed:
            self._closed = True
            self._error = error
            self._changed.set()

    async def get(self, timeout_s: float) -> T:
        """The next item.

        Raises StopAsyncIteration at the end, the error given to `close`, and
        WeirError(DEADLINE_EXCEEDED) when nothing comes for `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self._items and not self._closed:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise WeirError(Reason.DEADLINE_EXCEEDED, f"nothing came for {timeout_s} s") from None
        if self._items:
            return self._items.popleft()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def items(self, timeout_s: float) -> AsyncIterator[T]:
        """All items until the end; `timeout_s` bounds each wait. Raises as `get`."""
        while True:
            try:
                item = await self.get(timeout_s)
            except StopAsyncIteration:
                return
            yield item
