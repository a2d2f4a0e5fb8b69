"""`/metrics` and `/healthz` over HTTP, for processes that have no HTTP of their own."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def metrics_routes(
    registry: CollectorRegistry, healthy: Callable[[], bool] = lambda: True
) -> list[Route]:
    """Routes for a Starlette application: `/metrics` and `/healthz` (200 or 503)."""

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    return [Route("/metrics", metrics), health_route(healthy)]


def health_route(healthy: Callable[[], bool]) -> Route:
    """`/healthz`: 200 or 503."""

    async def healthz(_: Request) -> Response:
        if healthy():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "not serving"}, status_code=503)

    return Route("/healthz", healthz)


def metrics_app(
    registry: CollectorRegistry, healthy: Callable[[], bool] = lambda: True
) -> Starlette:
    """An application with nothing but `metrics_routes`."""
    return Starlette(routes=metrics_routes(registry, healthy))
