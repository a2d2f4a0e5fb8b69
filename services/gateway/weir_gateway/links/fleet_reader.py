"""Asks the scheduler which workers there are."""

import grpc

from weir.scheduler.v1.scheduler_service_pb2 import ListWorkersRequest
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.leader_channels import LeaderChannels

_CALL_S = 3.0


class FleetReader:
    """Reads the workers of the active scheduler.

    Args:
        channels: to the schedulers, with the cluster secret.
    """

    def __init__(self, channels: LeaderChannels) -> None:
        self._channels = channels

    async def ready(self) -> list[tuple[str, str]]:
        """Model and id of every worker that takes work.

        Raises:
            WeirError: SCHEDULER_UNAVAILABLE or NOT_LEADER.
        """
        try:
            answer = await SchedulerServiceStub(self._channels.current).ListWorkers(
                ListWorkersRequest(), timeout=_CALL_S
            )
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, unavailable_as=Reason.SCHEDULER_UNAVAILABLE) from None
        return [
            (view.registration.model, view.registration.worker_id)
            for view in answer.workers
            if view.state == "ready"
        ]
