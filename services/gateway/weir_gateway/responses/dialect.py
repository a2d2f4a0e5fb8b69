"""OpenAI's Responses API as a dialect."""

from typing import Any

from weir_core.clock import Clock
from weir_core.ids import new_id
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.openai.dialect import AnswerForm, OpenAiDialect
from weir_gateway.openai.requests import HttpRequest
from weir_gateway.responses.answer import ResponseAnswer
from weir_gateway.responses.body import response_request
from weir_gateway.responses.keeper import Keeper
from weir_gateway.responses.request import ResponseRequest


class ResponsesDialect(OpenAiDialect):
    """`POST /v1/responses`: keys, headers and refusals are those of OpenAI's other paths.

    Args:
        keeper: knows what is kept.
        clock: wall time.
    """

    def __init__(self, keeper: Keeper, clock: Clock) -> None:
        super().__init__(chat=True)
        self._keeper = keeper
        self._clock = clock

    def parse(self, body: dict[str, Any]) -> HttpRequest:
        """The request of a body. Raises WeirError."""
        return response_request(body, new_id("resp", self._clock))

    def form(self, live: LiveRequest, request: HttpRequest) -> AnswerForm:
        """How its answer looks."""
        assert isinstance(request, ResponseRequest)
        return ResponseAnswer(live, request, self._clock, kept=self._keeper.keeps(request))
