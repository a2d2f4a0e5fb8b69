"""JSON of answers: whole, and in pieces from templates built once a request."""

from typing import Any

import orjson

from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir_core.errors import WeirError
from weir_core.errors.openai import to_body
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
_MARK = "\u0000"
_FINISH = {
    FinishReason.FINISH_REASON_STOP: "stop",
    FinishReason.FINISH_REASON_LENGTH: "length",
}


def usage_json(usage: Usage) -> dict[str, Any]:
    """OpenAI's `usage`."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_prompt_tokens},
    }


class AnswerFormat:
    """How one answer looks.

    Args:
        live: the request.
        chat: chat completion, else text completion.
        include_usage: streams end with a usage chunk.
    """

    def __init__(self, live: LiveRequest, *, chat: bool, include_usage: bool) -> None:
        self._chat = chat
        self._include_usage = include_usage
        self._max_new_tokens = live.prepared.max_new_tokens
        kind = "chatcmpl" if chat else "cmpl"
        self._head = {
            "id": f"{kind}-{live.id.removeprefix('req_')}",
            "created": live.facts.accepted_us // 1_000_000,
            "model": live.prepared.subject.model,
            "system_fingerprint": live.prepared.subject.model_version or None,
        }
        before, after = self._chunk(self._delta(_MARK), None).split(orjson.dumps(_MARK))
        self._before, self._after = before, after

    def opening(self) -> bytes:
        """The first event of a stream."""
        if not self._chat:
            return b""
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None)

    def piece(self, text: str) -> bytes:
        """An event with new text."""
        return self._before + orjson.dumps(text) + self._after

    def closing(self, ending: Ending) -> bytes:
        """The last events of a stream: the finish if it was answered, or in part; the error."""
        events = b""
        if ending.error is None or ending.cut_by_quota:
            last: dict[str, Any] = {"delta": {}} if self._chat else {"text": ""}
            events += self._chunk(last, _FINISH.get(ending.finish_reason, "stop"))
            if self._include_usage:
                chunk = self._object("chunk") | {"choices": [], "usage": usage_json(ending.usage)}
                events += b"data: " + orjson.dumps(chunk) + b"\n\n"
        if ending.error is not None:
            events += _error_event(ending.error)
        return events + DONE

    def whole(self, text: str, ending: Ending) -> bytes:
        """The body of an answer that is not streamed; with `error` if a limit cut it short."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None}
        if self._chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        choice["finish_reason"] = _FINISH.get(ending.finish_reason, "stop")
        body = self._object("") | {
            "choices": [choice],
            "usage": usage_json(ending.usage),
            # What was assumed when the client named no bound.
            "max_new_tokens": self._max_new_tokens,
        }
        if ending.error is not None:
            body |= to_body(ending.error)
        return orjson.dumps(body)

    def _delta(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}} if self._chat else {"text": text}

    def _chunk(self, choice: dict[str, Any], finish_reason: str | None) -> bytes:
        full = {"index": 0, **choice, "logprobs": None, "finish_reason": finish_reason}
        chunk = self._object("chunk") | {"choices": [full]}
        if self._include_usage:
            chunk["usage"] = None
        return b"data: " + orjson.dumps(chunk) + b"\n\n"

    def _object(self, suffix: str) -> dict[str, Any]:
        if not self._chat:
            return {**self._head, "object": "text_completion"}
        name = f"chat.completion.{suffix}" if suffix else "chat.completion"
        return {**self._head, "object": name}


def _error_event(error: WeirError) -> bytes:
    return b"data: " + orjson.dumps(to_body(error)) + b"\n\n"
