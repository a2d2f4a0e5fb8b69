"""Pages of the HTTP door that belong to no room: models, limits, health, metrics, errors."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from weir.gateway.v1.inference_service_pb2 import ModelInfo
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.errors.openai import to_http
from weir_core.ids import new_request_id
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.trail import note_refusal
from weir_gateway.intake.model_list import ModelList
from weir_gateway.metrics_views import MetricsViews
from weir_gateway.openai.limits_page import LimitsPage

_log = get_logger(__name__)


class AppPages:
    """The handlers.

    Args:
        reception, models, limits, metrics: see there.
        clock: for ids.
        not_ready: why the process cannot serve; empty when it can.
    """

    def __init__(
        self,
        reception: Reception,
        models: ModelList,
        limits: LimitsPage,
        metrics: MetricsViews,
        clock: Clock,
        not_ready: Callable[[], str],
    ) -> None:
        self._metrics = metrics
        self._reception = reception
        self._models = models
        self._limits = limits
        self._clock = clock
        self._not_ready = not_ready

    async def list_models(self, request: Request) -> Response:
        """`GET /v1/models`."""
        caller = self._reception.authenticate(request.headers.get("authorization"))
        data = [_model_json(info) for info in self._models.of(caller)]
        return JSONResponse({"object": "list", "data": data}, headers=self._request_id())

    async def get_model(self, request: Request) -> Response:
        """`GET /v1/models/{name}`."""
        caller = self._reception.authenticate(request.headers.get("authorization"))
        info = self._models.one(caller, request.path_params["name"])
        return JSONResponse(_model_json(info), headers=self._request_id())

    async def show_limits(self, request: Request) -> Response:
        """`GET /v1/limits`."""
        caller = self._reception.let_in(request.headers.get("authorization"))
        page = await self._limits.show(caller, request.query_params)
        return JSONResponse(page, headers=self._request_id())

    async def show_metrics(self, request: Request) -> Response:
        """`GET /metrics`."""
        return await self._metrics.show(request, self._reception.authenticate)

    async def live(self, _: Request) -> Response:
        """`GET /healthz/live`: the loop turns."""
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """`GET /healthz/ready`: requests can be served."""
        why = self._not_ready()
        if why:
            return JSONResponse({"status": "not ready", "reason": why}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def on_error(self, _: Request, error: Exception) -> Response:
        """A refusal."""
        assert isinstance(error, WeirError)
        status, body, headers = to_http(error, note_refusal(error, self._clock))
        return JSONResponse(body, status_code=status, headers=headers)

    async def on_http_error(self, request: Request, error: Exception) -> Response:
        """No such path or method."""
        assert isinstance(error, HTTPException)
        path = request.url.path[:100]
        told = {
            404: f"there is no path {path}; GET /openapi.json lists those there are",
            405: f"{path} takes no {request.method[:20]}; GET /openapi.json lists what it takes",
        }
        body = {
            "error": {
                "message": told.get(error.status_code, f"{request.method} {path}: {error.detail}"),
                "type": "invalid_request_error",
                "param": None,
                "code": "method_not_allowed" if error.status_code == 405 else "unknown_url",
            }
        }
        headers = dict(error.headers or {}) | self._request_id()
        return JSONResponse(body, status_code=error.status_code, headers=headers)

    async def on_fault(self, _: Request, error: Exception) -> Response:
        """A fault of ours: the client gets an id, the log the rest."""
        error_id = new_request_id(self._clock)
        _log.error("http_request_failed", error_id=error_id, exc_info=error)
        told = WeirError(Reason.INTERNAL, f"internal error, id {error_id}")
        status, body, headers = to_http(told, error_id)
        return JSONResponse(body, status_code=status, headers=headers)

    def _request_id(self) -> dict[str, str]:
        return {"x-request-id": new_request_id(self._clock)}


def _model_json(info: ModelInfo) -> dict[str, Any]:
    created = datetime.fromtimestamp(info.create_time.seconds, UTC)
    return {
        "id": info.name,
        "object": "model",
        "created": int(created.timestamp()),
        "owned_by": "tokenweir",
        "max_model_len": info.max_context_tokens,
        "default_max_new_tokens": info.default_max_new_tokens,
        "versions": list(info.versions),
        "aliases": list(info.aliases),
    }
