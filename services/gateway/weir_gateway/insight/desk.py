"""What happened to each request, and why: asked of everybody who knows a part of it."""

from weir.gateway.v1.insight_service_pb2 import (
    Explanation,
    GetConfigurationResponse,
    GetKvMapResponse,
    ListRequestsRequest,
    ListRequestsResponse,
)


class InsightDesk:
    """Behind `InsightService` and the console.

    `tenant_id` is whom the answer is for: a tenant is told of its own requests alone, and no
    number of the layers cluster and model; empty is the administrator, who is told everything.
    """

    async def explain_request(self, request_id: str, *, tenant_id: str = "") -> Explanation:
        """The account of a request.

        Raises:
            WeirError: INVALID_FIELD, or NOT_FOUND, alike for ids of other tenants.
        """
        raise NotImplementedError

    async def list_requests(
        self, request: ListRequestsRequest, *, tenant_id: str = ""
    ) -> ListRequestsResponse:
        """A page of requests, newest first.

        Raises:
            WeirError: INVALID_FIELD.
        """
        raise NotImplementedError

    async def get_kv_map(
        self, worker_id: str, *, first_block: int = 0, tenant_id: str = ""
    ) -> GetKvMapResponse:
        """The KV blocks of a worker.

        Raises:
            WeirError: NOT_FOUND, NO_WORKER, SCHEDULER_UNAVAILABLE.
        """
        raise NotImplementedError

    async def get_configuration(self) -> GetConfigurationResponse:
        """The settings in force of every service that answers; for administrators alone."""
        raise NotImplementedError
