"""The route of the document."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from weir_gateway.openapi.document import openapi_json


def openapi_route() -> Route:
    """`GET /openapi.json`, without a key: it says nothing of any tenant."""

    async def show(_: Request) -> Response:
        return Response(openapi_json(), media_type="application/json")

    return Route("/openapi.json", show)
