"""Asks the active scheduler what waits and who works, and drains workers."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import grpc

from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.leader_channels import LeaderChannels

if TYPE_CHECKING:
    from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

_T = TypeVar("_T")

_CALL_S = 3.0
_ELSEWHERE = (Reason.NOT_LEADER, Reason.SCHEDULER_UNAVAILABLE)


class SchedulerReader:
    """Calls without a stream; a standby that answers sends it on to the active one.

    Args:
        channels: to the schedulers, of this reader alone.
    """

    def __init__(self, channels: LeaderChannels) -> None:
        self._channels = channels

    async def queue(self, tenant_id: str, size: int, token: str) -> wire.ListQueueResponse:
        """What waits; an empty id for everybody's. Raises WeirError."""
        request = wire.ListQueueRequest(tenant_id=tenant_id, page_size=size, page_token=token)
        return await self._ask(lambda stub: stub.ListQueue(request, timeout=_CALL_S))

    async def workers(self) -> list[wire.WorkerView]:
        """Every worker. Raises WeirError."""
        request = wire.ListWorkersRequest()
        answer = await self._ask(lambda stub: stub.ListWorkers(request, timeout=_CALL_S))
        return list(answer.workers)

    async def pools(self, tenant_id: str = "") -> wire.GetPoolStatusResponse:
        """Pools, and targets of a tenant or of all. Raises WeirError."""
        request = wire.GetPoolStatusRequest(tenant_id=tenant_id)
        return await self._ask(lambda stub: stub.GetPoolStatus(request, timeout=_CALL_S))

    async def drain(self, worker_id: str, *, cancel: bool) -> wire.WorkerView:
        """Sends no more work to a worker, or again. Raises WeirError."""
        request = wire.DrainWorkerRequest(worker_id=worker_id, cancel=cancel)
        answer = await self._ask(lambda stub: stub.DrainWorker(request, timeout=_CALL_S))
        return answer.worker

    async def close(self) -> None:
        """Closes the channels."""
        await self._channels.close()

    async def _ask(self, call: "Callable[[SchedulerServiceAsyncStub], Awaitable[_T]]") -> _T:
        tries = len(self._channels.addresses)
        while True:
            tries -= 1
            try:
                answer = await call(SchedulerServiceStub(self._channels.current))
            except grpc.aio.AioRpcError as error:
                told = from_rpc_error(
                    error, unavailable_as=Reason.SCHEDULER_UNAVAILABLE, peer="the scheduler"
                )
                if told.reason in _ELSEWHERE:
                    self._channels.lost(told)
                if told.reason not in _ELSEWHERE or tries <= 0:
                    raise told from None
                continue
            self._channels.answered()
            return answer
