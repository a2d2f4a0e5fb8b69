"""What every call of the JSON API passes: session, role, origin, the word against forgery."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.span_context import begin_no_traces
from weir_gateway.console.origin import Origins
from weir_gateway.console.pace import Pace
from weir_gateway.console.session_store import Session, SessionStore
from weir_gateway.console.shared_sessions import SharedSessions
from weir_gateway.console.visit import Visit

CSRF = "x-weir-csrf"
_MOST_S = 15.0
_MOST_BODY = 65_536

Handler = Callable[[Visit], Awaitable[Any]]


class Gate:
    """Lets calls through to handlers.

    Args:
        sessions, shared, origins, pace: see there.
    """

    def __init__(
        self, sessions: SessionStore, shared: SharedSessions, origins: Origins, pace: Pace
    ) -> None:
        self.sessions = sessions
        self.shared = shared
        self.origins = origins
        self._pace = pace

    def get(self, path: str, handler: Handler, *, admin: bool = False) -> Route:
        """A route that reads; its answer is the JSON of what `handler` returns."""
        return self._route(path, "GET", handler, admin=admin)

    def post(self, path: str, handler: Handler, *, admin: bool = False) -> Route:
        """A route that changes something."""
        return self._route(path, "POST", handler, admin=admin)

    async def enter(self, request: Request, *, changes: bool) -> Session:
        """The session of a call.

        Raises:
            WeirError: there is none, or what a change must show is missing.
        """
        cookie = self.cookie(request)
        await self.shared.recall(cookie)
        session = self.sessions.find(cookie)
        if changes:
            self.check_change(request, session)
        self._pace.take(session.identity.tenant_id)
        if session.identity.tenant_id:
            bind_request(tenant_id=session.identity.tenant_id)
        return session

    def check_change(self, request: Request, session: Session) -> None:
        """Raises WeirError(PERMISSION_DENIED) for a change that a foreign page may have sent."""
        self.origins.check(request)
        sent = request.headers.get(CSRF, "").encode("utf-8", errors="surrogatepass")
        if not hmac.compare_digest(sent, session.csrf.encode()):
            raise WeirError(
                Reason.PERMISSION_DENIED,
                f"the header {CSRF} is not that of the session; load the page again",
            )

    def cookie(self, request: Request) -> str:
        """What the browser keeps."""
        return request.cookies.get(self.cookie_name(request), "")

    def cookie_name(self, request: Request) -> str:
        """By port, as browsers see it: cookies of one host are shared by all its ports."""
        port = self.origins.port or (request.scope.get("server") or ("", 0))[1]
        prefix = "__Secure-" if self.origins.is_secure(request) else ""
        return f"{prefix}weir_console_{port}"

    def _route(self, path: str, method: str, handler: Handler, *, admin: bool) -> Route:
        async def serve(request: Request) -> Response:
            begin_no_traces()
            visit = Visit(request, await self.enter(request, changes=method != "GET"))
            if admin:
                visit.who.require_admin()
            async with deadline():
                return to_json(await handler(visit))

        return Route(path, serve, methods=[method])


def deadline() -> asyncio.Timeout:
    """Of one call."""
    return asyncio.timeout(_MOST_S)


def to_json(value: Any) -> Response:
    """A JSON answer; None: none."""
    if isinstance(value, Response):
        return value
    if value is None:
        return Response(status_code=204)
    return Response(orjson.dumps(value), media_type="application/json")


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        WeirError: it is another type, too large, too slow, or no object.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise WeirError(Reason.INVALID_FIELD, "the content-type must be application/json")
    content = b""
    async with deadline():
        async for part in request.stream():
            content += part
            if len(content) > _MOST_BODY:
                raise WeirError(
                    Reason.BODY_TOO_LARGE, f"the body is over {_MOST_BODY} bytes", field="body"
                )
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise InvalidField("body", type(value).__name__, "a JSON object")
    return value
