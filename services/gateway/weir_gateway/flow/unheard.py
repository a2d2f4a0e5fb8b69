"""Calls to the ratelimiter that were not heard, repeated until they are."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from opentelemetry.trace import SpanKind

from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import Backoff
from weir_core.tasks import end_task
from weir_core.telemetry import names
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.tracing import Tracing
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.metrics import GatewayMetrics

_log = get_logger(__name__)

NOT_HEARD = (Reason.LIMITER_UNAVAILABLE, Reason.INTERNAL)
"""Reasons after which the same call may succeed."""

_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Call:
    """An idempotent call.

    Attributes:
        request_id: of the request that it is about.
        send: makes it once; raises WeirError.
        gives_up_at: time of the loop after which the ratelimiter's sweep has it.
        tenant_id: whose request that is.
        traceparent: of the span that it was first made in; empty for none.
        trail: of the request, told if it is given up.
    """

    request_id: str
    send: Callable[[], Awaitable[None]]
    gives_up_at: float
    tenant_id: str = ""
    traceparent: str = ""
    trail: Trail | None = None


class Unheard:
    """Repeats calls in one task: while the ratelimiter is away, a few of them probe for all.

    Args:
        metrics: what is given up is counted.
        tracing: each time is a span in the trace of its request.
        most: calls kept; about 3 kB each. More are given up at once.
    """

    def __init__(self, metrics: GatewayMetrics, tracing: Tracing, *, most: int = 20_000) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._most = most
        self._calls: deque[Call] = deque()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        """Takes over a call that was not heard."""
        if len(self._calls) >= self._most:
            self._give_up(call, f"{self._most} calls wait already")
            return
        self._calls.append(call)
        self._metrics.unheard.set(len(self._calls))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._repeat(), name="unheard")

    async def drain(self) -> None:
        """Returns when every call was heard or given up."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self, timeout_s: float) -> None:
        """Tries all once more; what is not heard within `timeout_s` is left to the sweep."""
        if self._task is not None:
            await end_task(self._task)
        if self._calls:
            last = asyncio.create_task(self._try_all())
            await asyncio.wait({last}, timeout=timeout_s)
            await end_task(last)
        while self._calls:
            self._give_up(self._calls.popleft(), "the gateway was shut down")
        self._metrics.unheard.set(0)

    async def _repeat(self) -> None:
        backoff = Backoff(first_s=0.05, most_s=5.0)
        while self._calls:
            await asyncio.sleep(backoff.next_s())
            if await self._try_all():
                backoff.reset()

    async def _try_all(self) -> bool:
        """Sends each call once, the oldest first; gives up the round when nobody hears.

        What is not heard while others are goes to the end, so that it holds up nobody.
        """
        left = len(self._calls)
        while left > 0:
            batch = [self._calls[at] for at in range(min(_AT_ONCE, left))]
            heard = await asyncio.gather(*map(self._try, batch))
            for _ in batch:
                self._calls.popleft()
            again = [call for call, done in zip(batch, heard, strict=True) if not done]
            self._calls.extend(again)
            self._metrics.unheard.set(len(self._calls))
            left -= len(batch)
            if len(again) == len(batch):
                return False
        return not self._calls

    async def _try(self, call: Call) -> bool:
        """Whether nothing is left to do for a call, for good or ill."""
        # Of this call alone: each is tried in a task of its own.
        bind_request(request_id=call.request_id, tenant_id=call.tenant_id)
        try:
            with self._tracing.span(
                names.SPAN_SETTLE_LATE,
                parent=call.traceparent,
                kind=SpanKind.CLIENT,
                attributes={names.REQUEST_ID: call.request_id},
            ):
                await call.send()
        except WeirError as error:
            late = asyncio.get_running_loop().time() >= call.gives_up_at
            if error.reason in NOT_HEARD and not late:
                return False
            self._give_up(call, error.reason)
        except Exception as error:
            _log.error("closing_failed", request_id=call.request_id, exc_info=error)
            self._give_up(call, type(error).__name__)
        return True

    def _give_up(self, call: Call, why: str) -> None:
        self._metrics.unsettled()
        if call.trail is not None:
            call.trail.note(Moment.LEFT_TO_SWEEP, message=why)
        _log.error("left_to_sweep", request_id=call.request_id, reason=why)
