"""How a door reads requests and writes answers; the path between is one."""

from collections.abc import Sequence
from typing import Any, Protocol

from weir_core.errors import WeirError
from weir_core.errors.openai import header_safe
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.openai.answer_format import PING, AnswerFormat
from weir_gateway.openai.exchange import Exchange, Headers
from weir_gateway.openai.rate_headers import of_statuses
from weir_gateway.openai.refusal import Refusal, openai_refusal
from weir_gateway.openai.requests import HttpRequest, chat_request, completion_request


class AnswerForm(Protocol):
    """How the answer of one request looks."""

    def opening(self) -> bytes:
        """The first events of a stream."""

    def pieces(self, pieces: Sequence[Piece]) -> bytes:
        """Events with new text."""

    def closing(self, ending: Ending) -> bytes:
        """The last events of a stream."""

    def whole(self, pieces: Sequence[Piece], ending: Ending) -> bytes:
        """The body of an answer that is not streamed."""


class Dialect(Protocol):
    """One API."""

    ping: bytes
    """Sent into silent streams."""

    def authorization(self, exchange: Exchange) -> str | None:
        """The `Authorization` header, whatever header the key came in. Raises WeirError."""

    def parse(self, body: dict[str, Any]) -> HttpRequest:
        """The request that a body holds. Raises WeirError."""

    def form(self, live: LiveRequest, request: HttpRequest) -> AnswerForm:
        """How its answer looks."""

    def headers(self, admission: Admission, now_us: int) -> Headers:
        """Headers of an answer."""

    def refusal(self, error: WeirError, request_id: str, now_us: int) -> Refusal:
        """An error in place of an answer."""


class OpenAiDialect:
    """Chat completions, or else text completions."""

    ping = PING

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat

    def authorization(self, exchange: Exchange) -> str | None:
        """As it came."""
        return exchange.header("authorization")

    def parse(self, body: dict[str, Any]) -> HttpRequest:
        """The request of a body. Raises WeirError."""
        return chat_request(body) if self._chat else completion_request(body)

    def form(self, live: LiveRequest, request: HttpRequest) -> AnswerForm:
        """How its answer looks."""
        return AnswerFormat(
            live,
            chat=self._chat,
            include_usage=request.include_usage,
            service_tier=request.service_tier,
        )

    def headers(self, admission: Admission, now_us: int) -> Headers:
        """Who answers, its bound, and where the limits stand."""
        return [
            *request_headers(admission.live),
            *of_statuses(admission.limits, degraded=admission.degraded, now_us=now_us),
        ]

    def refusal(self, error: WeirError, request_id: str, now_us: int) -> Refusal:
        """OpenAI's error object."""
        return openai_refusal(error, request_id, now_us)


def request_headers(live: LiveRequest) -> list[tuple[bytes, bytes]]:
    """Headers of our own that answers of every dialect have."""
    headers = [
        (b"x-request-id", live.id.encode()),
        (b"traceresponse", live.trace.traceparent.encode()),
        (b"x-weir-model", header_safe(live.prepared.subject.model).encode()),
        (b"x-weir-max-new-tokens", str(live.prepared.max_new_tokens).encode()),
        (b"x-weir-priority", str(live.prepared.priority).encode()),
    ]
    if live.prepared.degradations:
        told = header_safe(", ".join(live.prepared.degradations))
        headers.append((b"x-weir-degraded", told.encode()))
    if live.prepared.session is not None:
        headers.append((b"x-weir-session-id", live.prepared.session_id.encode()))
    return headers
