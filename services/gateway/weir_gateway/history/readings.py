"""Reads of the past, in threads of their own: few at a time, and no tenant all of them."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from weir_core.errors import Reason, WeirError

_MOST_EACH = 4
_T = TypeVar("_T")


class Readings:
    """One thread reads for administrators and one for tenants: a day is a second of work.

    More would take the processor from the loop that serves requests. Who gives up does not free
    a thread that reads, and whoever asks next waits for it.
    """

    def __init__(self) -> None:
        self._pools = {
            for_tenants: ThreadPoolExecutor(1, thread_name_prefix="weir-history")
            for for_tenants in (False, True)
        }
        self._open: Counter[str] = Counter()

    async def run(self, tenant_id: str, read: Callable[[], _T]) -> _T:
        """What `read` returns, for a tenant or for administrators.

        Raises:
            WeirError: RATE_LIMIT_EXCEEDED: the tenant waits for several already.
        """
        if tenant_id and self._open[tenant_id] >= _MOST_EACH:
            raise WeirError(
                Reason.RATE_LIMIT_EXCEEDED,
                f"{_MOST_EACH} looks at the history are under way for the tenant; one after the "
                "other is served as fast",
                retry_after_s=1,
            )
        reading = self._pools[bool(tenant_id)].submit(read)
        self._open[tenant_id] += 1
        reading.add_done_callback(self._closing(tenant_id))
        return await asyncio.wrap_future(reading)

    def open_for(self, tenant_id: str) -> int:
        """Reads of a tenant that wait or are under way."""
        return self._open[tenant_id]

    def close(self) -> None:
        """Waits for nobody."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _closing(self, tenant_id: str) -> Callable[[object], None]:
        loop = asyncio.get_running_loop()

        def close() -> None:
            self._open[tenant_id] -= 1
            if not self._open[tenant_id]:
                del self._open[tenant_id]

        def done(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(close)

        return done
