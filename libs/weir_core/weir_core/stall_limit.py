"""A deadline for each of many awaits, with one timer for all of them."""

import asyncio
from types import TracebackType


class StallLimit:
    """Bounds each await of a loop, where nearly all end at once.

    What `asyncio.timeout` does, for one await after the other, without a timer for each:

        limit = StallLimit(60)
        try:
            while True:
                with limit:
                    await send(await next_piece())
        finally:
            limit.close()

    The block raises TimeoutError when it takes longer than `seconds`. Not to be nested, and for
    one task at a time.

    Args:
        seconds: of one block.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._since = 0.0
        self._cancelling = 0
        self.expired = False
        """Whether the last block took too long."""

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a StallLimit bounds awaits of a task")
        self._task, self._cancelling, self.expired = task, task.cancelling(), False
        self._since = loop.time()
        if self._timer is None:
            self._timer = loop.call_at(self._since + self._seconds, self._look)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if task is None or not self.expired:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def close(self) -> None:
        """Takes its timer back; it may be used again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        loop = asyncio.get_running_loop()
        due = self._since + self._seconds
        if loop.time() < due:
            self._timer = loop.call_at(due, self._look)
            return
        self.expired = True
        self._task.cancel()
