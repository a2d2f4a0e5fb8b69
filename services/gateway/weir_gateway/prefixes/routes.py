"""`/v1/prefixes` over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.query import PAGE, Query
from weir_gateway.openai.requests import chat_input
from weir_gateway.openai.tool_fields import to_tools
from weir_gateway.openai.whole_body import read_object
from weir_gateway.prefixes.desk import PrefixDesk
from weir_gateway.prefixes.pages import PrefixPages
from weir_gateway.prefixes.prefix import NEWEST, Prefix, PrefixContent, Warmth
from weir_gateway.prefixes.warm_keeper import WarmKeeper

_MOST_VERSION = 10**18


class PrefixRoutes:
    """The handlers.

    Args:
        reception, desk, keeper: see `PrefixServicer`.
        clock: for ids.
        max_body: bytes.
    """

    def __init__(
        self,
        reception: Reception,
        desk: PrefixDesk,
        keeper: WarmKeeper,
        *,
        clock: Clock,
        max_body: int,
    ) -> None:
        self._reception = reception
        self._desk = desk
        self._keeper = keeper
        self._pages = PrefixPages(desk)
        self._clock = clock
        self._max_body = max_body

    def routes(self) -> list[Route]:
        """What the HTTP door serves."""
        one = "/v1/prefixes/{name}"
        return [
            Route("/v1/prefixes", self.list, methods=["GET"]),
            Route(one, self.put, methods=["PUT"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/warm", self.warm, methods=["POST"]),
        ]

    async def put(self, request: Request) -> Response:
        """`PUT /v1/prefixes/{name}`."""
        caller = self._caller(request)
        fields = Fields(await read_object(request, self._max_body))
        models, keep_cold = _names(fields), fields.boolean("keep_cold")
        content = _content(fields)
        fields.refuse_unknown()
        prefix = await self._desk.put(caller, request.path_params["name"], content, models)
        if not keep_cold:
            self._keeper.warm_later(caller, prefix)
        return self._reply(_json(prefix))

    async def list(self, request: Request) -> Response:
        """`GET /v1/prefixes`."""
        caller = self._caller(request)
        query = Query(request.query_params, PAGE)
        found, token = await self._pages.page(caller, *query.page())
        data = [_json(prefix, content=False) for prefix in found]
        return self._reply({"object": "list", "data": data, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """`GET /v1/prefixes/{name}`."""
        prefix = await self._found(self._caller(request), request)
        return self._reply(_json(prefix, await self._desk.warmths(prefix)))

    async def delete(self, request: Request) -> Response:
        """`DELETE /v1/prefixes/{name}`."""
        caller, name = self._caller(request), request.path_params["name"]
        version = _version(request.query_params)
        await self._desk.delete(caller, name, version)
        told = {"name": name, "version": version or None}
        return self._reply(told | {"object": "prefix.deleted", "deleted": True})

    async def warm(self, request: Request) -> Response:
        """`POST /v1/prefixes/{name}/warm`."""
        caller = self._caller(request)
        prefix = await self._found(caller, request)
        warmths = await self._keeper.warm(caller, prefix)
        return self._reply({"object": "list", "data": [_warmth(one) for one in warmths]})

    async def _found(self, caller: Caller, request: Request) -> Prefix:
        version = _version(request.query_params)
        return await self._desk.get(caller, request.path_params["name"], version)

    def _caller(self, request: Request) -> Caller:
        return self._reception.let_in(request.headers.get("authorization"))

    def _reply(self, body: dict[str, Any]) -> Response:
        return JSONResponse(body, headers={"x-request-id": new_request_id(self._clock)})


def _content(fields: Fields) -> PrefixContent:
    text = fields.raw("text")
    if text is None:
        return PrefixContent(chat=chat_input(fields, to_tools(fields))["chat"])
    if not isinstance(text, str):
        raise InvalidField("text", Shape(text), "a string")
    return PrefixContent(text=text)


def _names(fields: Fields) -> Sequence[str]:
    names = fields.array("models")
    if not all(isinstance(name, str) for name in names):
        raise InvalidField("models", Shape(names), "an array of names of models")
    return names


def _version(query: Mapping[str, str]) -> int:
    return Query(query, ("version",)).integer("version", default=NEWEST, most=_MOST_VERSION)


def _json(
    prefix: Prefix, warmths: Sequence[Warmth] | None = None, *, content: bool = True
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "object": "prefix",
        "name": prefix.name,
        "version": prefix.version,
        "models": list(prefix.models),
        "created_at": prefix.created_ms // 1_000,
    }
    chat = prefix.content.chat
    if content and chat is not None:
        body["messages"] = [
            {"role": message.role, "content": message.content}
            | ({"name": message.name} if message.name else {})
            for message in chat.messages
        ]
        body["tools"] = [dict(tool) for tool in chat.tools]
    elif content:
        body["text"] = prefix.content.text
    if warmths is not None:
        body["warmths"] = [_warmth(one) for one in warmths]
    return body


def _warmth(warmth: Warmth) -> dict[str, Any]:
    return {
        "model": warmth.model,
        "worker_id": warmth.worker_id,
        "computed_at": warmth.time_ms // 1_000,
        "prompt_tokens": warmth.prompt_tokens,
    }
