"""`GET /v1/requests/{request_id}`: what became of a request of the caller's tenant, and why."""

from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weir_core.clock import Clock
from weir_core.ids import new_request_id
from weir_gateway.flow.reception import Reception
from weir_gateway.insight.desk import InsightDesk


class RequestRoute:
    """The HTTP twin of `InsightService.ExplainRequest`, for callers.

    Args:
        reception: lets them in; a call counts as one that reserves nothing.
        desk: knows requests.
        clock: for ids.
    """

    def __init__(self, reception: Reception, desk: InsightDesk, clock: Clock) -> None:
        self._reception = reception
        self._desk = desk
        self._clock = clock

    def routes(self) -> list[Route]:
        """What the HTTP door serves."""
        return [Route("/v1/requests/{request_id}", self.explain, methods=["GET"])]

    async def explain(self, request: Request) -> Response:
        """The message `Explanation` as JSON, under the contract's names."""
        caller = self._reception.let_in(request.headers.get("authorization"))
        told = await self._desk.explain_request(
            request.path_params["request_id"], tenant_id=caller.tenant_id
        )
        page = {"object": "request.explanation"} | MessageToDict(
            told, preserving_proto_field_name=True
        )
        return JSONResponse(page, headers={"x-request-id": new_request_id(self._clock)})
