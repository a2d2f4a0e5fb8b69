"""Calls that are answered later."""

from typing import Protocol

from weir_gateway.caller.caller import Caller
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.openai.exchange import Exchange


class Deferral(Protocol):
    """Turns calls of one endpoint into jobs."""

    def asked(self, exchange: Exchange) -> bool:
        """Whether the client prefers it (RFC 7240, `respond-async`)."""

    def may_defer(self, live: LiveRequest) -> bool:
        """Whether its tenant's policy may defer a call."""

    async def outwaited(self, live: LiveRequest) -> bool:
        """Whether such a call has waited for a worker for as long as the policy says.

        It has ended then, and nothing of it ran. False as soon as a worker has begun it. When
        this is cancelled the request goes on.
        """

    async def submit(self, exchange: Exchange, caller: Caller, body: bytes) -> None:
        """Accepts a body as a job and answers 202. Raises WeirError."""
