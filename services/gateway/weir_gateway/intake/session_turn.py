"""A request as a turn of a session."""

from dataclasses import dataclass
from typing import Protocol

from weir_gateway.caller.caller import Caller
from weir_gateway.intake.generation_request import GenerationRequest


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """Which session a request goes on with.

    Attributes:
        session_id: its id; the request goes where its last turn ran.
        ttl_ms: how long its worker keeps its KV, unless the tenant's policy says less.
        keeps: whether the turn reads and leaves KV of the session.
    """

    session_id: str
    ttl_ms: int
    keeps: bool = True


class Sessions(Protocol):
    """The sessions of tenants."""

    async def turn_of(
        self, caller: Caller, request: GenerationRequest, model: str
    ) -> SessionTurn | None:
        """The turn that a request is; None where it names neither session nor conversation.

        Args:
            caller: who asks.
            request: checked for its form.
            model: its resolved name.

        Raises:
            WeirError: SESSION_NOT_FOUND, alike for a session of nobody and of another tenant;
                STATE_OFF or STATE_UNAVAILABLE for one that cannot be looked up.
        """
