"""`/v1/sessions` over HTTP."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.model_list import ModelList
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.query import PAGE, Query
from weir_gateway.openai.requests import model_name
from weir_gateway.openai.whole_body import read_object
from weir_gateway.sessions.desk import SessionDesk
from weir_gateway.sessions.pages import SessionPages
from weir_gateway.sessions.session import Session

_MOST_BODY = 65_536


class SessionRoutes:
    """The handlers.

    Args:
        reception, models, desk: see `SessionServicer`.
        clock: for ids.
    """

    def __init__(
        self, reception: Reception, models: ModelList, desk: SessionDesk, clock: Clock
    ) -> None:
        self._reception = reception
        self._models = models
        self._desk = desk
        self._pages = SessionPages(desk)
        self._clock = clock

    def routes(self) -> list[Route]:
        """What the HTTP door serves."""
        return [
            Route("/v1/sessions", self.create, methods=["POST"]),
            Route("/v1/sessions", self.list, methods=["GET"]),
            Route("/v1/sessions/{id}", self.get, methods=["GET"]),
            Route("/v1/sessions/{id}", self.delete, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        """`POST /v1/sessions`."""
        caller = self._caller(request)
        fields = Fields(await read_object(request, _MOST_BODY))
        model = self._models.one(caller, model_name(fields)).name
        label = fields.text("conversation_id")
        ttl_ms = _milliseconds("idle_ttl_s", fields.number("idle_ttl_s"))
        fields.refuse_unknown()
        return self._reply(_json(await self._desk.create(caller, model, label, ttl_ms)))

    async def list(self, request: Request) -> Response:
        """`GET /v1/sessions`."""
        caller = self._caller(request)
        query = Query(request.query_params, PAGE)
        found, token = await self._pages.page(caller, *query.page())
        data = [_json(session) for session in found]
        return self._reply({"object": "list", "data": data, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """`GET /v1/sessions/{id}`."""
        caller = self._caller(request)
        return self._reply(_json(await self._desk.get(caller, request.path_params["id"])))

    async def delete(self, request: Request) -> Response:
        """`DELETE /v1/sessions/{id}`."""
        caller, session_id = self._caller(request), request.path_params["id"]
        await self._desk.delete(caller, session_id)
        return self._reply({"id": session_id, "object": "session.deleted", "deleted": True})

    def _caller(self, request: Request) -> Caller:
        return self._reception.let_in(request.headers.get("authorization"))

    def _reply(self, body: dict[str, Any]) -> Response:
        return JSONResponse(body, headers={"x-request-id": new_request_id(self._clock)})


def _milliseconds(field: str, seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not 0 <= seconds <= 1e9:
        raise InvalidField(field, seconds, "from 600 to 1800")
    return round(seconds * 1_000)


def _json(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "object": "session",
        "model": session.model,
        "conversation_id": session.conversation_id or None,
        "created_at": session.created_ms // 1_000,
        "last_used_at": session.last_use_ms // 1_000,
        "expires_at": session.expires_ms // 1_000,
        "idle_ttl_s": session.idle_ttl_ms / 1_000,
        "tokens": session.tokens,
    }
