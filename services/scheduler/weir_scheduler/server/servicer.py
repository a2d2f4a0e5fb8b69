"""`weir.scheduler.v1.SchedulerService`: validate, call, map."""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceServicer
from weir_core.clock import Clock
from weir_core.errors import InvalidField, WeirError
from weir_core.rpc.framed import FramedOptions
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server import encoding, pool_encoding, scaling_encoding
from weir_scheduler.server.gateway_stream import GatewayStream
from weir_scheduler.server.pump import Pump
from weir_scheduler.server.scaling_loop import ScalingLoop
from weir_scheduler.server.streams import Streams
from weir_scheduler.server.worker_stream import WorkerStream
from weir_scheduler.workers.worker import Worker

SERVICE = "weir.scheduler.v1.SchedulerService"

_DEFAULT_PAGE, _LONGEST_PAGE = 100, 1_000

Context = grpc.aio.ServicerContext[Any, Any]


class SchedulerServicer(SchedulerServiceServicer):
    """Serves one scheduler; exceptions become statuses in the interceptors."""

    def __init__(
        self,
        scheduler: Scheduler,
        streams: Streams,
        pump: Pump,
        *,
        clock: Clock,
        bounds: Bounds,
        options: FramedOptions,
        active: Callable[[], bool],
        refusal: Callable[[], WeirError],
        scaling: ScalingLoop,
        directory_known: Callable[[], Awaitable[object]],
    ) -> None:
        self._scheduler = scheduler
        self._streams = streams
        self._pump = pump
        self._clock = clock
        self._bounds = bounds
        self._options = options
        self._active = active
        self._refusal = refusal
        self._scaling = scaling
        self._directory_known = directory_known

    async def Dispatch(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[wire.DispatchRequest], context: Context
    ) -> None:
        """Serve one gateway until its stream ends, or this scheduler's term.

        Not before the directory is known: a gateway that is connected sends requests.
        """
        self.check_leading()
        await self._directory_known()
        stream = GatewayStream(self._scheduler, self._streams, self._pump, self._options)
        await stream.serve(request_iterator, self._guarded(context.write))

    async def ConnectWorker(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[wire.ConnectWorkerRequest], context: Context
    ) -> None:
        """Serve one worker until its stream ends, or this scheduler's term."""
        self.check_leading()
        stream = WorkerStream(
            self._scheduler, self._streams, self._pump, self._bounds, self._options
        )
        await stream.serve(request_iterator, self._guarded(context.write))

    async def ListQueue(  # noqa: N802
        self, request: wire.ListQueueRequest, context: Context
    ) -> wire.ListQueueResponse:
        """What waits, in order of arrival."""
        self.check_leading()
        start, size = _page(request)
        waiting = self._scheduler.queued(request.tenant_id)
        now_us, wall_us = self._clock.monotonic_us(), self._clock.now_us()
        page = [
            encoding.queued_request(
                record, *self._scheduler.place(record), now_us=now_us, wall_us=wall_us
            )
            for record in waiting[start : start + size]
        ]
        more = start + size < len(waiting)
        token = base64.urlsafe_b64encode(str(start + size).encode()).decode() if more else ""
        return wire.ListQueueResponse(requests=page, next_page_token=token, total=len(waiting))

    async def ListWorkers(  # noqa: N802
        self, request: wire.ListWorkersRequest, context: Context
    ) -> wire.ListWorkersResponse:
        """Every worker that is known."""
        self.check_leading()
        views = [self._view(worker) for worker in self._scheduler.workers()]
        return wire.ListWorkersResponse(workers=views)

    async def GetPoolStatus(  # noqa: N802
        self, request: wire.GetPoolStatusRequest, context: Context
    ) -> wire.GetPoolStatusResponse:
        """What waits in each pool and how fast it goes, and how targets are kept."""
        return wire.GetPoolStatusResponse(
            pools=[pool_encoding.pool_status(status) for status in self._scheduler.pools()],
            slos=[
                pool_encoding.slo_status(status)
                for status in self._scheduler.slos(request.tenant_id)
            ],
            depths=pool_encoding.queue_depths(self._scheduler.queue_depth_of_pools()),
        )

    async def DrainWorker(  # noqa: N802
        self, request: wire.DrainWorkerRequest, context: Context
    ) -> wire.DrainWorkerResponse:
        """Send no more work to a worker, or again."""
        self.check_leading()
        worker = self._scheduler.drain_worker(request.worker_id, cancel=request.cancel)
        self._pump.poke()
        return wire.DrainWorkerResponse(worker=self._view(worker))

    def _view(self, worker: Worker) -> wire.WorkerView:
        pool = self._scheduler.pool_of(worker)
        return encoding.worker_view(worker, pool, self._clock.monotonic_us())

    async def GetScalingSignals(  # noqa: N802
        self, request: wire.GetScalingSignalsRequest, context: Context
    ) -> wire.GetScalingSignalsResponse:
        """Load and recommendation of every pool that is asked for, as last judged."""
        self.check_leading()
        to_wall_us = self._clock.now_us() - self._clock.monotonic_us()
        pools = [
            scaling_encoding.pool_scaling(one, to_wall_us=to_wall_us)
            for one in self._scaling.last
            if request.model in ("", one.key.model) and request.pool in ("", one.key.pool)
        ]
        return wire.GetScalingSignalsResponse(pools=pools)

    def check_leading(self) -> None:
        """Raises WeirError(NOT_LEADER), which names the active scheduler if one is known."""
        if not self._active():
            raise self._refusal()

    def _guarded(
        self, write: Callable[[Any], Awaitable[object]]
    ) -> Callable[[Any], Awaitable[object]]:
        """Looks before every frame: the process may have been stopped since it was queued."""

        async def send(frame: Any) -> None:
            self.check_leading()
            await write(frame)

        return send


def _page(request: wire.ListQueueRequest) -> tuple[int, int]:
    """Start and size of the page. Raises InvalidField."""
    size = request.page_size or _DEFAULT_PAGE
    if not 1 <= size <= _LONGEST_PAGE:
        raise InvalidField("page_size", request.page_size, f"from 1 to {_LONGEST_PAGE}")
    if not request.page_token:
        return 0, size
    try:
        start = int(base64.urlsafe_b64decode(request.page_token))
    except (ValueError, binascii.Error):
        start = -1
    if start < 0:
        raise InvalidField("page_token", request.page_token, "one that an earlier page returned")
    return start, size
