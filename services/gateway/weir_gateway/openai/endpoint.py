"""What every endpoint that reads a body does around its own work."""

from abc import ABC, abstractmethod

from starlette.types import Receive, Scope, Send

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.trail import note_refusal
from weir_gateway.openai.exchange import ClientLeft, Exchange
from weir_gateway.openai.refusal import Refusal, openai_refusal

_log = get_logger(__name__)


class Endpoint(ABC):
    """An ASGI endpoint; its own work is `_serve`.

    Args:
        clock: for ids and reset times.
        max_body: bytes.
        stall_s: a client that reads nothing for so long is given up.
    """

    def __init__(self, *, clock: Clock, max_body: int, stall_s: float) -> None:
        self._clock = clock
        self._max_body = max_body
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        exchange = Exchange(scope, receive, send, max_body=self._max_body, stall_s=self._stall_s)
        try:
            await self._serve(exchange)
        except ClientLeft:
            return
        except WeirError as error:
            await self._refuse(exchange, error)
        except Exception as error:
            told = WeirError(Reason.INTERNAL, "internal error")
            error_id = note_refusal(told, self._clock)
            told.message = f"internal error, id {error_id}"
            _log.error("http_request_failed", error_id=error_id, exc_info=error)
            await self._refuse(exchange, told)

    @abstractmethod
    async def _serve(self, exchange: Exchange) -> None:
        """Does the endpoint's own work."""

    def _refusal(self, error: WeirError, request_id: str) -> Refusal:
        """An error in the form of this door."""
        return openai_refusal(error, request_id, self._clock.now_us())

    async def _refuse(self, exchange: Exchange, error: WeirError) -> None:
        if not exchange.started:
            refusal = self._refusal(error, note_refusal(error, self._clock))
            await exchange.reply_refusal(refusal)
