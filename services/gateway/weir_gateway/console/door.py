"""The console at the HTTP door: pages, files, JSON, and which of them is meant."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.errors.openai import to_http
from weir_core.ids import new_request_id
from weir_core.telemetry.logs import get_logger
from weir_gateway.console.gate import to_json
from weir_gateway.console.headers import StrictHeaders
from weir_gateway.console.static_files import INDEX, StaticFile, StaticFiles

_log = get_logger(__name__)

PREFIX = "/console"


class ConsoleDoor:
    """Serves it.

    Args:
        api: routes under `/console/api`.
        files: of the pages.
        clock: for ids of errors.

    Attributes:
        app: the ASGI application, for paths under `/console`.
    """

    def __init__(self, api: Sequence[BaseRoute], files: StaticFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self.app = StrictHeaders(
            Starlette(
                routes=[
                    Route(PREFIX, _to_index),
                    Mount(
                        PREFIX,
                        routes=[
                            Mount("/api", routes=list(api)),
                            Route("/static/{name:path}", self._file),
                            Route("/{page:path}", self._page),
                        ],
                    ),
                ],
                exception_handlers={
                    WeirError: self._on_error,
                    TimeoutError: self._on_timeout,
                    HTTPException: self._on_http_error,
                    Exception: self._on_fault,
                },
            )
        )

    async def _page(self, request: Request) -> Response:
        name = request.path_params["page"]
        if name == "api" or name.startswith("api/"):
            raise HTTPException(404)
        return self._send(request, self._files.find(INDEX))

    async def _file(self, request: Request) -> Response:
        return self._send(request, self._files.find(request.path_params["name"]))

    def _send(self, request: Request, file: StaticFile | None) -> Response:
        if file is None:
            raise HTTPException(404)
        headers = {"etag": file.etag, "cache-control": "no-cache"}
        known = request.headers.get("if-none-match", "")
        if file.etag in [tag.strip().removeprefix("W/") for tag in known.split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers | {"content-type": file.content_type})

    async def _on_error(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, WeirError)
        return self._told(error)

    async def _on_timeout(self, _: Request, __: Exception) -> Response:
        return self._told(
            WeirError(Reason.DEADLINE_EXCEEDED, "the console did not get its answers in time")
        )

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path[:100]
        if error.status_code == 405:
            told = f"{path} takes no {request.method[:20]}"
        else:
            told = f"the console has no {path}"
        answer = self._told(WeirError(Reason.NOT_FOUND, told))
        answer.status_code = error.status_code
        answer.headers.update(error.headers or {})
        return answer

    async def _on_fault(self, _: Request, error: Exception) -> Response:
        error_id = new_request_id(self._clock)
        _log.error("console_request_failed", error_id=error_id, exc_info=error)
        return self._told(WeirError(Reason.INTERNAL, f"internal error, id {error_id}"))

    def _told(self, error: WeirError) -> Response:
        status, body, headers = to_http(error, new_request_id(self._clock))
        answer = to_json(body)
        answer.status_code = status
        answer.headers.update(headers)
        return answer


class WithConsole:
    """Sends what is for the console to it, and all else past it: past CORS and tenants' keys.

    Args:
        app: serves all else.
        console: serves `/console`.
    """

    def __init__(self, app: ASGIApp, console: ASGIApp) -> None:
        self.app = app
        self.console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        path = scope.get("path", "")
        ours = path.startswith(PREFIX) and path[len(PREFIX) : len(PREFIX) + 1] in ("", "/")
        await (self.console if ours else self.app)(scope, receive, send)


async def _to_index(_: Request) -> Response:
    return RedirectResponse(f"{PREFIX}/", status_code=308)
