"""A request that names a prefix."""

from typing import Protocol

from weir_gateway.caller.caller import Caller
from weir_gateway.intake.generation_request import GenerationRequest


class Prefixes(Protocol):
    """The prefixes of tenants."""

    async def applied(self, caller: Caller, request: GenerationRequest) -> GenerationRequest:
        """The request with the prefix that it names before its input.

        Args:
            caller: who asks.
            request: names a prefix.

        Raises:
            WeirError: INVALID_FIELD; NOT_FOUND, alike for a prefix of nobody and of another
                tenant; STATE_OFF or STATE_UNAVAILABLE when it cannot be looked up.
        """
