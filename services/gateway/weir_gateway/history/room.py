"""The history of a gateway, put together."""

from collections.abc import Callable

import grpc

from weir.gateway.v1.history_service_pb2_grpc import add_HistoryServiceServicer_to_server
from weir_core.clock import Clock
from weir_core.rpc.leader_channels import LeaderChannels
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.admin.viewers import Viewers
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.history.far_reader import FarReader
from weir_gateway.history.keeper import HistoryKeeper
from weir_gateway.history.request_flows import RequestFlows
from weir_gateway.history.servicer import HistoryServicer
from weir_gateway.settings import GatewaySettings


class HistoryRoom:
    """Parts of the history.

    Args:
        settings: of the process.
        records: the requests that live.
        schedulers, ratelimiter: the far parts, as the cluster secret reaches them.
        degraded, unheard: see `FarReader`.
        clock: time.
        gateway_id: of the process.

    Attributes:
        flows: to be told of every request.
        keeper: see there.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        records: RequestRecords,
        schedulers: LeaderChannels,
        ratelimiter: grpc.aio.Channel,
        *,
        degraded: Callable[[], bool],
        unheard: Callable[[], int],
        clock: Clock,
        gateway_id: str,
    ) -> None:
        self._settings = settings
        self.flows = RequestFlows()
        reader = FarReader(schedulers, ratelimiter, degraded=degraded, unheard=unheard)
        self.keeper = HistoryKeeper(
            self.flows,
            lambda: records,
            reader.look,
            clock,
            gateway_id=gateway_id,
            step_s=settings.history_step_s,
        )

    def serve(self, server: grpc.aio.Server, reception: Reception) -> None:
        """Adds the service."""
        secret = self._settings.admin_secret
        viewers = Viewers(reception, AdminGuard(secret) if secret is not None else None)
        servicer = HistoryServicer(self.keeper, viewers)
        add_HistoryServiceServicer_to_server(servicer, server)
