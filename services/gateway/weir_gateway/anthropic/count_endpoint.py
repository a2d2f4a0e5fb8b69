"""`POST /v1/messages/count_tokens`."""

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.ids import new_request_id
from weir_gateway.anthropic.dialect import authorization_of
from weir_gateway.anthropic.errors import refusal_of
from weir_gateway.anthropic.requests import count_request
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.preparer import Preparer
from weir_gateway.openai.endpoint import Endpoint
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.refusal import Refusal


class CountEndpoint(Endpoint):
    """Counts tokens as a message would.

    Args:
        reception, preparer: see there.
        clock, max_body, stall_s: see `Endpoint`.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        preparer: Preparer,
        clock: Clock,
        max_body: int,
        stall_s: float,
    ) -> None:
        super().__init__(clock=clock, max_body=max_body, stall_s=stall_s)
        self._reception = reception
        self._preparer = preparer

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.let_in(authorization_of(exchange))
        request = count_request(parse_object(await exchange.body()))
        prompt, _ = await self._preparer.tokenize(caller, request)
        request_id = (b"request-id", new_request_id(self._clock).encode())
        await exchange.reply_json({"input_tokens": len(prompt.token_ids)}, [request_id])

    def _refusal(self, error: WeirError, request_id: str) -> Refusal:
        return refusal_of(error, request_id, self._clock.now_us())
