"""Anthropic's Messages API as a dialect."""

from typing import Any

from weir_core.errors import InvalidField, WeirError
from weir_gateway.anthropic.answer import AnthropicAnswer
from weir_gateway.anthropic.errors import limit_headers, refusal_of
from weir_gateway.anthropic.requests import messages_request
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.openai.dialect import AnswerForm, request_headers
from weir_gateway.openai.exchange import Exchange, Headers
from weir_gateway.openai.refusal import Refusal
from weir_gateway.openai.requests import HttpRequest

VERSIONS = ("2023-06-01", "2026-10-21")
"""Of the API: those that send and read the shapes of this door."""


def authorization_of(exchange: Exchange) -> str | None:
    """The key of `x-api-key`, or else of `Authorization`, as the latter writes it.

    Raises:
        InvalidField: another version of the API is asked for.
    """
    version = exchange.header("anthropic-version")
    if version is not None and version not in VERSIONS:
        raise InvalidField("anthropic-version", version[:64], " or ".join(VERSIONS))
    key = exchange.header("x-api-key")
    return exchange.header("authorization") if key is None else f"Bearer {key}"


class AnthropicDialect:
    """`POST /v1/messages`."""

    ping = b'event: ping\ndata: {"type": "ping"}\n\n'

    def authorization(self, exchange: Exchange) -> str | None:
        """Whichever header has the key. Raises WeirError."""
        return authorization_of(exchange)

    def parse(self, body: dict[str, Any]) -> HttpRequest:
        """The request of a body. Raises WeirError."""
        return messages_request(body)

    def form(self, live: LiveRequest, request: HttpRequest) -> AnswerForm:
        """How its answer looks."""
        return AnthropicAnswer(live)

    def headers(self, admission: Admission, now_us: int) -> Headers:
        """Who answers, its bound, and where the limits stand."""
        request_id = (b"request-id", admission.live.id.encode())
        limits = limit_headers(admission.limits, now_us)
        return [*request_headers(admission.live), request_id, *limits]

    def refusal(self, error: WeirError, request_id: str, now_us: int) -> Refusal:
        """Anthropic's error object."""
        return refusal_of(error, request_id, now_us)
