"""`weir.gateway.v1.InsightPeerService`: what this gateway remembers, for the others."""

# ruff: noqa: N802 - methods are named by the contract

from weir.gateway.v1.insight_peer_service_pb2 import (
    FindRequestRequest,
    FindRequestResponse,
    ListOwnRequestsRequest,
    ListOwnRequestsResponse,
)
from weir.gateway.v1.insight_peer_service_pb2_grpc import InsightPeerServiceServicer
from weir_core.ids import check_id
from weir_core.rpc.interceptors.handler import Context
from weir_gateway.insight.desk import InsightDesk
from weir_gateway.insight.peers import not_remembered


class InsightPeerServicer(InsightPeerServiceServicer):
    """Serves other gateways, which hold the cluster secret."""

    def __init__(self, desk: InsightDesk) -> None:
        self._desk = desk

    async def FindRequest(
        self, request: FindRequestRequest, context: Context
    ) -> FindRequestResponse:
        """What is remembered of a request."""
        told = self._desk.own_account(check_id("request_id", request.request_id))
        if told is None:
            raise not_remembered()
        return FindRequestResponse(explanation=told)

    async def ListOwnRequests(
        self, request: ListOwnRequestsRequest, context: Context
    ) -> ListOwnRequestsResponse:
        """One more than a page of what is remembered, if there is so much."""
        return ListOwnRequestsResponse(requests=self._desk.own_requests(request.query))
