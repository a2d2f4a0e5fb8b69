"""Samples the requests of this gateway, the queues and the workers, and keeps what it saw."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from weir.gateway.v1.history_service_pb2 import HistorySample, WorkerSample
from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir.scheduler.v1.worker_report_pb2 import WorkerLoad
from weir_core.clock import Clock
from weir_core.repeating import Repeating
from weir_core.telemetry.span_context import begin_no_traces
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.history.far_reader import FarLook
from weir_gateway.history.joining import busiest_tenants, join
from weir_gateway.history.own_share import own_share
from weir_gateway.history.readings import Readings
from weir_gateway.history.request_flows import RequestFlows
from weir_gateway.history.sample_store import SampleStore
from weir_gateway.history.watcher import Watcher
from weir_gateway.history.worker_work import work_between

Samples = list[HistorySample]
_T = TypeVar("_T")

STEP_S = 5.0
_WITH_LIMITS = 16
_SHORTEST_S = 0.25
"""Between two looks at the far parts, however many begin to watch."""


class HistoryKeeper:
    """The history of one gateway process; it begins with the process.

    Args:
        flows: counts requests.
        living: the requests that live.
        look: asks the far parts, and where the limits of some tenants stand.
        clock: time.
        gateway_id: of the process.
        step_s: length of a kept sample, and how often the far parts are asked while nobody
            watches.
    """

    def __init__(
        self,
        flows: RequestFlows,
        living: Callable[[], Iterable[LiveRequest]],
        look: Callable[[Sequence[str]], Awaitable[FarLook]],
        clock: Clock,
        *,
        gateway_id: str,
        step_s: float = STEP_S,
    ) -> None:
        self.gateway_id = gateway_id
        self.start_us = clock.now_us()
        self._flows = flows
        self._living = living
        self._look = look
        self._clock = clock
        self._step_s = step_s
        self._store = SampleStore()
        self._pending: list[HistorySample] = []
        self._watchers: set[Watcher] = set()
        self._loads: dict[str, WorkerLoad] = {}
        self._busiest: Sequence[str] = ()
        self._taken_us = clock.monotonic_us()
        self._hurry = asyncio.Event()
        self._readings = Readings()
        self._work = Repeating("history", self._sample, self._pause)

    def start(self) -> None:
        """Begins to sample."""
        self._work.start()

    async def stop(self) -> None:
        """Ends it, and every watch."""
        await self._work.stop()
        self._readings.close()
        for watcher in self._watchers:
            watcher.end()

    def history(self, window_s: float, step_s: float = 0.0) -> list[HistorySample]:
        """Samples that began within the last `window_s`, the oldest first.

        Args:
            window_s: seconds up to now.
            step_s: they are joined to be at least so long; 0 for as they are kept.
        """
        return self._read(window_s, step_s)()

    async def read(
        self, window_s: float, step_s: float, tenant_id: str, form: Callable[[Samples], _T]
    ) -> _T:
        """As `history`, of a tenant its share, in the form that is asked for.

        It is read, joined and formed in a thread: a day takes a second.

        Raises:
            WeirError: RATE_LIMIT_EXCEEDED: the tenant waits for several already.
        """
        read = self._read(window_s, step_s, tenant_id)
        return await self._readings.run(tenant_id, lambda: form(read()))

    def _read(
        self, window_s: float, step_s: float, tenant_id: str = ""
    ) -> Callable[[], list[HistorySample]]:
        """Reads what is kept now; to be called anywhere."""
        begin_us = self._clock.now_us() - round(window_s * 1e6)
        kept, pending = self._store.copy(), list(self._pending)

        def read() -> list[HistorySample]:
            samples = kept.since(begin_us)
            if pending:
                samples.append(join(pending))
            # First: to join what others did would be most of the work.
            return stretched([own_share(sample, tenant_id) for sample in samples], step_s)

        return read

    async def watch(self, step_s: float) -> AsyncIterator[HistorySample]:
        """A sample at once and then one every `step_s` seconds, until the keeper stops."""
        watcher = Watcher(step_s)
        self._watchers.add(watcher)
        self._hurry.set()
        try:
            async for sample in watcher.samples():
                yield sample
        finally:
            self._watchers.discard(watcher)

    async def _pause(self) -> None:
        """Until the next sample is due, or somebody begins to watch."""
        every_s = min([self._step_s, *(watcher.step_s for watcher in self._watchers)])
        passed_s = (self._clock.monotonic_us() - self._taken_us) / 1e6
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, every_s - passed_s)):
                await self._hurry.wait()
        await asyncio.sleep(_SHORTEST_S - (self._clock.monotonic_us() - self._taken_us) / 1e6)
        self._hurry.clear()

    async def _sample(self) -> None:
        begin_no_traces()
        look = await self._look(self._busiest if self._watchers else ())
        now_us = self._clock.monotonic_us()
        sample = HistorySample(
            flows=self._flows.take(self._living()),
            pools=look.pools,
            depths=look.depths,
            parts=look.parts,
            far_read=True,
        )
        sample.end_time.FromMicroseconds(self._clock.now_us())
        sample.duration.FromMicroseconds(now_us - self._taken_us)
        sample.workers.extend(self._workers(look.workers))
        self._taken_us = now_us
        self._busiest = busiest_tenants(sample, _WITH_LIMITS)
        for watcher in self._watchers:
            watched = HistorySample(limits=look.limits)
            watched.MergeFrom(sample)
            watcher.offer(watched)
        self._keep(sample)

    def _keep(self, sample: HistorySample) -> None:
        self._pending.append(sample)
        seconds = sum(one.duration.ToMicroseconds() for one in self._pending) / 1e6
        # The loop wakes a little early or late: a sample that is nearly due is due.
        if seconds >= self._step_s * 0.95:
            self._store.add(join(self._pending))
            self._pending = []

    def _workers(self, views: Iterable[WorkerView]) -> list[WorkerSample]:
        before, self._loads = self._loads, {}
        samples = []
        for view in views:
            worker_id = view.registration.worker_id
            self._loads[worker_id] = view.load
            known = before.get(worker_id)
            work = work_between(known, view.load) if known is not None else None
            samples.append(WorkerSample(view=view, work=work))
        return samples


def stretched(samples: list[HistorySample], step_s: float) -> list[HistorySample]:
    """Neighbours joined until each lasts `step_s`, but perhaps the last."""
    if step_s <= 0:
        return samples
    found: list[HistorySample] = []
    part: list[HistorySample] = []
    passed_us = 0
    for sample in samples:
        part.append(sample)
        passed_us += sample.duration.ToMicroseconds()
        if passed_us >= step_s * 0.95e6:
            found.append(join(part))
            part, passed_us = [], 0
    return [*found, join(part)] if part else found
