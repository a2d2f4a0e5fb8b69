"""What can be done with a kept response: read, stream again, cancel, delete, list its input."""

from abc import abstractmethod
from typing import Any

from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.openai.endpoint import Endpoint
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.list_json import list_json
from weir_gateway.openai.query import Query
from weir_gateway.responses.background import Background
from weir_gateway.responses.event_stream import EventStream
from weir_gateway.responses.store import ResponseStore, StoredResponse

_MOST_ITEMS = 100
_ITEMS = 20
_INT64 = 2**63


class ResponsePage(Endpoint):
    """An endpoint about one response of the caller's tenant.

    Args:
        reception, store, background, stream: see there.
        parts: of `Endpoint`.
    """

    parameters: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        reception: Reception,
        store: ResponseStore,
        background: Background,
        stream: EventStream,
        **parts: Any,
    ) -> None:
        super().__init__(**parts)
        self._reception = reception
        self._store = store
        self._background = background
        self._stream = stream

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.let_in(exchange.header("authorization"))
        query = Query(exchange.query, self.parameters)
        response_id = exchange.path_parameter("response_id")
        stored = await self._store.get(caller.tenant_id, response_id, "response_id")
        await self._show(exchange, caller, stored, query)

    @abstractmethod
    async def _show(
        self, exchange: Exchange, caller: Caller, stored: StoredResponse, query: Query
    ) -> None: ...

    async def _reply(self, exchange: Exchange, value: Any) -> None:
        await exchange.reply_json(value, [self._request_id()])

    def _request_id(self) -> tuple[bytes, bytes]:
        return b"x-request-id", new_request_id(self._clock).encode()


class RetrievePage(ResponsePage):
    """`GET /v1/responses/{id}`."""

    # Obfuscation and includes change nothing of what is kept.
    parameters = ("stream", "starting_after", "include", "include[]", "include_obfuscation")

    async def _show(
        self, exchange: Exchange, caller: Caller, stored: StoredResponse, query: Query
    ) -> None:
        after = query.integer("starting_after", default=-1, least=0, most=_INT64 - 1)
        if not query.boolean("stream"):
            if "starting_after" in query:
                raise InvalidField("starting_after", after, "left out, or sent with stream=true")
            await self._reply(exchange, await self._background.shown(stored))
            return
        if not stored.background:
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                "stream is not supported: this response was not made with background: true, so "
                "its events were not kept; leave it out",
                field="stream",
            )
        with self._stream.place(caller):
            await self._stream.send(exchange, caller, stored.id, after, [self._request_id()])


class CancelPage(ResponsePage):
    """`POST /v1/responses/{id}/cancel`."""

    async def _show(
        self, exchange: Exchange, caller: Caller, stored: StoredResponse, query: Query
    ) -> None:
        await self._reply(exchange, await self._background.cancel(stored))


class DeletePage(ResponsePage):
    """`DELETE /v1/responses/{id}`."""

    async def _show(
        self, exchange: Exchange, caller: Caller, stored: StoredResponse, query: Query
    ) -> None:
        await self._background.delete(stored)
        await self._reply(exchange, {"id": stored.id, "object": "response", "deleted": True})


class InputItemsPage(ResponsePage):
    """`GET /v1/responses/{id}/input_items`: newest first unless `order=asc`."""

    parameters = ("after", "limit", "order", "include", "include[]")

    async def _show(
        self, exchange: Exchange, caller: Caller, stored: StoredResponse, query: Query
    ) -> None:
        limit = query.integer("limit", default=_ITEMS, most=_MOST_ITEMS)
        order = query.choice("order", ("asc", "desc"), default="desc")
        items = list(stored.items) if order == "asc" else list(reversed(stored.items))
        after = query.word("after")
        start = 0
        if after:
            found = [at for at, item in enumerate(items) if item["id"] == after]
            if not found:
                raise InvalidField("after", after, "the id of an item of this response")
            start = found[0] + 1
        await self._reply(exchange, list_json(items[start:], limit))
