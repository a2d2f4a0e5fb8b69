"""`weir.gateway.v1.HistoryService`: thin over `HistoryKeeper`."""

# ruff: noqa: N802 - methods are named by the contract

from collections.abc import AsyncIterator

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import (
    GetHistoryRequest,
    GetHistoryResponse,
    WatchHistoryRequest,
    WatchHistoryResponse,
)
from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceServicer as Base
from weir_core.errors import InvalidField
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.admin.viewers import Viewers
from weir_gateway.flow.messages import timestamp
from weir_gateway.history.keeper import HistoryKeeper
from weir_gateway.history.own_share import own_share
from weir_gateway.history.places import Places

_WINDOW_S, _LONGEST_S = 3_600.0, 86_400.0
_STEP_S, _LONGEST_STEP_S = 2.0, 60.0


class HistoryServicer(Base):
    """Serves administrators everything and callers their tenant's share.

    Args:
        keeper: see there.
        viewers: lets them in.
    """

    def __init__(self, keeper: HistoryKeeper, viewers: Viewers) -> None:
        self._keeper = keeper
        self._viewers = viewers
        self._places = Places(each=8, most=64)

    async def GetHistory(self, request: GetHistoryRequest, context: Context) -> GetHistoryResponse:
        """The past."""
        tenant_id = self._viewers.tenant_of(_header(context))
        window_s, step_s = _WINDOW_S, 0.0
        if request.HasField("window"):
            window_s = _seconds("window", request.window, 1.0, _LONGEST_S)
        if request.HasField("step"):
            step_s = _seconds("step", request.step, 0.0, _LONGEST_S)
        return GetHistoryResponse(
            samples=await self._keeper.read(window_s, step_s, tenant_id, list),
            gateway_id=self._keeper.gateway_id,
            start_time=timestamp(self._keeper.start_us),
        )

    async def WatchHistory(
        self, request: WatchHistoryRequest, context: Context
    ) -> AsyncIterator[WatchHistoryResponse]:
        """What comes, while the caller may see it."""
        header = _header(context)
        tenant_id = self._viewers.tenant_of(header)
        step_s = _STEP_S
        if request.HasField("step"):
            step_s = _seconds("step", request.step, 1.0, _LONGEST_STEP_S)
        with self._places.taken(tenant_id):
            async for sample in self._keeper.watch(step_s):
                self._viewers.check_standing(header)
                yield WatchHistoryResponse(sample=own_share(sample, tenant_id))


def _header(context: Context) -> str:
    return first_value(context.invocation_metadata(), AUTHORIZATION)


def _seconds(field: str, duration: Duration, least: float, most: float) -> float:
    """Raises InvalidField."""
    seconds = duration.ToMicroseconds() / 1e6
    if not least <= seconds <= most:
        raise InvalidField(field, f"{seconds:g} s", f"{least:g} s to {most:g} s")
    return seconds
