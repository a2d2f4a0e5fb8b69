"""Answers of `/v1/messages`, whole and as events."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir_gateway.anthropic.content import ContentBlocks
from weir_gateway.anthropic.errors import error_json
from weir_gateway.anthropic.stop_sequence import StopSequence
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest


class AnthropicAnswer:
    """How the answer of one request looks.

    Args:
        live: the request.
    """

    def __init__(self, live: LiveRequest) -> None:
        prepared = live.prepared
        self._blocks = ContentBlocks(prepared)
        self._stop = StopSequence(prepared.token_bytes, prepared.sampling.stop)
        self._prompt_tokens = prepared.prompt_tokens
        self._head: dict[str, Any] = {
            "id": f"msg_{live.id.removeprefix('req_')}",
            "type": "message",
            "role": "assistant",
            "model": prepared.subject.model,
        }
        if prepared.degradations:
            self._head["degradations"] = list(prepared.degradations)

    def opening(self) -> bytes:
        """The first event of a stream; what was cached is told with the last."""
        usage = usage_json(Usage(prompt_tokens=self._prompt_tokens))
        message = self._message([], None, None, usage)
        return _events([{"type": "message_start", "message": message}])

    def pieces(self, pieces: Sequence[Piece]) -> bytes:
        """Events with new text."""
        events: list[dict[str, Any]] = []
        for piece in pieces:
            self._stop.add(piece.token_ids)
            events += self._blocks.feed(piece.text)
        return _events(events)

    def closing(self, ending: Ending) -> bytes:
        """The last events of a stream."""
        events: list[dict[str, Any]] = []
        if ending.error is None or ending.cut_by_quota:
            events += self._blocks.finish()
            reason, stop = self._reason(ending)
            delta = {"stop_reason": reason, "stop_sequence": stop}
            usage = usage_json(ending.usage)
            events.append({"type": "message_delta", "delta": delta, "usage": usage})
        if ending.error is None:
            events.append({"type": "message_stop"})
        else:
            events.append(error_json(ending.error))
        return _events(events)

    def whole(self, pieces: Sequence[Piece], ending: Ending) -> bytes:
        """The body of an answer that is not streamed; with `error` if a limit cut it short."""
        for piece in pieces:
            self._stop.add(piece.token_ids)
        blocks = self._blocks.whole("".join(piece.text for piece in pieces))
        reason, stop = self._reason(ending)
        body = self._message(blocks, reason, stop, usage_json(ending.usage))
        if ending.error is not None:
            body["error"] = error_json(ending.error)["error"]
        return orjson.dumps(body)

    def _reason(self, ending: Ending) -> tuple[str, str | None]:
        (reason,) = ending.finish_reasons(1)
        if reason == FinishReason.FINISH_REASON_LENGTH:
            return "max_tokens", None
        stop = self._stop.found()
        if stop is not None:
            return "stop_sequence", stop
        return "tool_use" if self._blocks.called else "end_turn", None

    def _message(
        self, content: list[Any], reason: str | None, stop: str | None, usage: dict[str, int]
    ) -> dict[str, Any]:
        ends = {"stop_reason": reason, "stop_sequence": stop}
        return {**self._head, "content": content, **ends, "usage": usage}


def usage_json(usage: Usage) -> dict[str, int]:
    """Anthropic's `usage`: its `input_tokens` are those that were not cached."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_prompt_tokens,
        "output_tokens": usage.completion_tokens,
    }


def _events(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"
        for event in events
    )
