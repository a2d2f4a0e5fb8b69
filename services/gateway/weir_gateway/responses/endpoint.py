"""`POST /v1/responses`, and `POST /v1/responses/input_tokens`."""

from collections.abc import Sequence
from typing import Any

from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.preparer import Preparer
from weir_gateway.openai.dialect import AnswerForm
from weir_gateway.openai.endpoint import Endpoint
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.generation_endpoint import GenerationEndpoint
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.requests import HttpRequest
from weir_gateway.responses.answer import ResponseAnswer
from weir_gateway.responses.background import Background
from weir_gateway.responses.body import count_request
from weir_gateway.responses.keeper import Keeper
from weir_gateway.responses.request import ResponseRequest


class _Later(Exception):
    """A request that is to be answered in the background."""

    def __init__(self, request: ResponseRequest) -> None:
        super().__init__()
        self.request = request


class ResponsesEndpoint(GenerationEndpoint):
    """A generation that can go on from an earlier one, and is kept.

    Args:
        keeper: of responses.
        background: takes those that are made later.
        parts: of `GenerationEndpoint`.
    """

    def __init__(self, *, keeper: Keeper, background: Background, **parts: Any) -> None:
        super().__init__(**parts)
        self._keeper = keeper
        self._background = background

    async def _generate(
        self, exchange: Exchange, caller: Caller, body: bytes, ticket: GuardTicket | None = None
    ) -> None:
        try:
            await super()._generate(exchange, caller, body, ticket)
        except _Later as later:
            await self._background.accept(exchange, caller, later.request, parse_object(body))

    async def _completed(self, caller: Caller, request: HttpRequest) -> HttpRequest:
        assert isinstance(request, ResponseRequest)
        completed = await self._keeper.complete(caller.tenant_id, request)
        if request.background:
            raise _Later(completed)
        return completed

    async def _keep(self, form: AnswerForm, pieces: Sequence[Piece], ending: Ending) -> None:
        assert isinstance(form, ResponseAnswer)
        await self._keeper.keep(form, pieces, ending)


class InputTokensEndpoint(Endpoint):
    """Counts the tokens that a response's input would have.

    Args:
        reception, preparer, keeper: see there.
        parts: of `Endpoint`.
    """

    def __init__(
        self, *, reception: Reception, preparer: Preparer, keeper: Keeper, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self._reception = reception
        self._preparer = preparer
        self._keeper = keeper

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.let_in(exchange.header("authorization"))
        request = count_request(parse_object(await exchange.body()))
        request = await self._keeper.complete(caller.tenant_id, request)
        prompt, _ = await self._preparer.tokenize(caller, request.request)
        answer = {"object": "response.input_tokens", "input_tokens": len(prompt.token_ids)}
        request_id = (b"x-request-id", new_request_id(self._clock).encode())
        await exchange.reply_json(answer, [request_id])
