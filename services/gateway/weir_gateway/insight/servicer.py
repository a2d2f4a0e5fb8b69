"""`weir.gateway.v1.InsightService`: thin over `InsightDesk`."""

# ruff: noqa: N802 - methods are named by the contract

from weir.gateway.v1.insight_service_pb2 import (
    ExplainRequestRequest,
    ExplainRequestResponse,
    GetConfigurationRequest,
    GetConfigurationResponse,
    GetKvMapRequest,
    GetKvMapResponse,
    ListRequestsRequest,
    ListRequestsResponse,
)
from weir.gateway.v1.insight_service_pb2_grpc import InsightServiceServicer
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.admin.off import NO_SECRET
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.admin.viewers import Viewers
from weir_gateway.insight.desk import InsightDesk

_MOST_BLOCKS = 2**53


class InsightServicer(InsightServiceServicer):
    """Serves administrators everything, and callers what is their tenant's.

    Args:
        desk: see there.
        viewers: lets them in.
        admin: lets administrators in; None where there is no admin secret.
    """

    def __init__(self, desk: InsightDesk, viewers: Viewers, admin: AdminGuard | None) -> None:
        self._desk = desk
        self._viewers = viewers
        self._admin = admin

    async def ExplainRequest(
        self, request: ExplainRequestRequest, context: Context
    ) -> ExplainRequestResponse:
        """The account of one request."""
        tenant_id = self._tenant_of(context)
        told = await self._desk.explain_request(request.request_id, tenant_id=tenant_id)
        return ExplainRequestResponse(explanation=told)

    async def ListRequests(
        self, request: ListRequestsRequest, context: Context
    ) -> ListRequestsResponse:
        """Requests, newest first."""
        return await self._desk.list_requests(request, tenant_id=self._tenant_of(context))

    async def GetKvMap(self, request: GetKvMapRequest, context: Context) -> GetKvMapResponse:
        """The KV blocks of a worker."""
        tenant_id = self._tenant_of(context)
        if not 0 <= request.first_block <= _MOST_BLOCKS:
            raise InvalidField("first_block", request.first_block, f"0 to {_MOST_BLOCKS}")
        return await self._desk.get_kv_map(
            request.worker_id, first_block=request.first_block, tenant_id=tenant_id
        )

    async def GetConfiguration(
        self, request: GetConfigurationRequest, context: Context
    ) -> GetConfigurationResponse:
        """Settings of every service."""
        if self._admin is None:
            raise WeirError(Reason.ADMINISTRATION_OFF, NO_SECRET)
        self._admin.check(_authorization(context))
        return await self._desk.get_configuration()

    def _tenant_of(self, context: Context) -> str:
        return self._viewers.tenant_of(_authorization(context))


def _authorization(context: Context) -> str:
    return first_value(context.invocation_metadata(), AUTHORIZATION)
