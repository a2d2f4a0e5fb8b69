"""Chat completions of somebody who is known already."""

from typing import Any

from weir_core.telemetry.context import bind_request
from weir_gateway.caller.caller import Caller
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.generation_endpoint import GenerationEndpoint


class KnownCallerEndpoint(GenerationEndpoint):
    """Generates for one caller, whatever headers say.

    Args:
        caller: in good standing.
        parts: those of `GenerationEndpoint`.
    """

    def __init__(self, caller: Caller, **parts: Any) -> None:
        super().__init__(**parts)
        self._caller = caller

    async def _serve(self, exchange: Exchange) -> None:
        bind_request(tenant_id=self._caller.tenant_id)
        await self._generate(exchange, self._caller, await exchange.body())
