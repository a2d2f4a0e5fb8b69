"""One answer of a request, as it is written."""

from collections.abc import Sequence
from typing import Any

from weir.common.v1.sampling_pb2 import FinishReason
from weir_gateway.flow.delivery import Piece
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.openai.logprobs import chat_logprobs, text_logprobs
from weir_gateway.openai.tool_deltas import ToolDeltas
from weir_gateway.text.token_trail import TokenTrail, ToldToken

_FINISH = {
    FinishReason.FINISH_REASON_STOP: "stop",
    FinishReason.FINISH_REASON_LENGTH: "length",
}


def finish_word(reason: "FinishReason.ValueType") -> str:
    """OpenAI's word for a finish reason."""
    return _FINISH.get(reason, "stop")


class Choice:
    """Makes the JSON of one answer, whole or piece by piece.

    Args:
        prepared: the request.
        chat: of a chat completion, else of a text completion.
    """

    def __init__(self, prepared: PreparedRequest, index: int, *, chat: bool) -> None:
        self._index = index
        self._chat = chat
        self._token_bytes = prepared.token_bytes
        self._tools = ToolDeltas(prepared) if prepared.tool_use is not None else None
        self._trail: TokenTrail | None = None
        if prepared.sampling.HasField("logprobs"):
            self._trail = TokenTrail(
                prepared.token_bytes,
                prepared.sampling.stop_token_ids,
                holds=bool(prepared.sampling.stop),
                start=len(prepared.echo),
            )

    @property
    def tells(self) -> bool:
        """Whether it comes with log-probabilities."""
        return self._trail is not None

    def opening(self) -> dict[str, Any]:
        """Begins a stream of a chat."""
        content = "" if self._tools is None else None
        return self._choice({"delta": {"role": "assistant", "content": content}}, None, None)

    @property
    def calls_tools(self) -> bool:
        """Whether its text may hold calls of tools."""
        return self._tools is not None

    def deltas(self, text: str) -> list[dict[str, Any]]:
        """New text in the stream of an answer that may call tools."""
        assert self._tools is not None
        return [self._choice({"delta": delta}, None, None) for delta in self._tools.feed(text)]

    def piece(self, text: str, tokens: Sequence[ToldToken] | None = None) -> dict[str, Any]:
        """New text in a stream."""
        content = {"delta": {"content": text}} if self._chat else {"text": text}
        return self._choice(content, tokens, None)

    def tokens_of(self, piece: Piece) -> list[ToldToken]:
        """The tokens that can be told with a piece."""
        if self._trail is None:
            return []
        return self._trail.add(piece.token_ids, piece.logprobs, piece.text)

    def closing(self, reason: "FinishReason.ValueType") -> list[dict[str, Any]]:
        """Ends a stream."""
        held = self._tools.finish() if self._tools else []
        chunks = [self._choice({"delta": delta}, None, None) for delta in held]
        return [*chunks, self._last(reason)]

    def _last(self, reason: "FinishReason.ValueType") -> dict[str, Any]:
        content: dict[str, Any] = {"delta": {}} if self._chat else {"text": ""}
        rest = self._trail.finish() if self._trail else []
        return self._choice(content, rest or None, self._finish_word(reason))

    def whole(
        self, text: str, tokens: list[ToldToken], reason: "FinishReason.ValueType"
    ) -> dict[str, Any]:
        """All of it; `tokens` are those that its pieces gave."""
        content: dict[str, Any]
        if self._tools is not None:
            content = {"message": self._tools.message(text)}
        elif self._chat:
            content = {"message": {"role": "assistant", "content": text, "refusal": None}}
        else:
            content = {"text": text}
        told = tokens + self._trail.finish() if self._trail else None
        return self._choice(content, told, self._finish_word(reason))

    def _finish_word(self, reason: "FinishReason.ValueType") -> str:
        if self._tools is not None and self._tools.called(reason):
            return "tool_calls"
        return finish_word(reason)

    def _choice(
        self, content: dict[str, Any], tokens: Sequence[ToldToken] | None, finish: str | None
    ) -> dict[str, Any]:
        logprobs = None
        if tokens is not None:
            form = chat_logprobs if self._chat else text_logprobs
            logprobs = form(tokens, self._token_bytes)
        return {"index": self._index, **content, "logprobs": logprobs, "finish_reason": finish}
