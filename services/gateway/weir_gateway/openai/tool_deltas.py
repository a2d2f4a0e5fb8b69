"""Calls of tools as a chat completion writes them, whole and in deltas."""

import secrets
import string
from typing import Any

from weir.common.v1.sampling_pb2 import FinishReason
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.tools.call_parser import CallParser
from weir_gateway.tools.events import CallArguments, CallBegins, Content, ToolEvent

_ALPHABET = string.ascii_letters + string.digits
_LONG_ID = 24
_SHORT_ID = 9


class ToolDeltas:
    """Of one answer.

    Args:
        prepared: the request; it may call tools.
    """

    def __init__(self, prepared: PreparedRequest) -> None:
        assert prepared.tool_use is not None
        assert prepared.call_format is not None
        self._prefix = prepared.call_format.call_id
        self._parser = prepared.tool_use.parser(prepared.call_format)

    @property
    def parser(self) -> CallParser:
        """What finds the calls."""
        return self._parser

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Deltas of new text."""
        return [self._delta(event) for event in self._parser.feed(text)]

    def finish(self) -> list[dict[str, Any]]:
        """Deltas of what was held back."""
        return [self._delta(event) for event in self._parser.finish()]

    def called(self, reason: "FinishReason.ValueType") -> bool:
        """Whether an answer that ended so ended with calls."""
        return reason == FinishReason.FINISH_REASON_STOP and self._parser.calls > 0

    def message(self, text: str) -> dict[str, Any]:
        """The message of a whole answer."""
        content = ""
        calls: list[dict[str, Any]] = []
        for event in self._parser.feed(text) + self._parser.finish():
            if isinstance(event, Content):
                content += event.text
            elif isinstance(event, CallBegins):
                calls.append(self._call(event.name))
            else:
                calls[event.index]["function"]["arguments"] += event.text
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if calls:
            message |= {"content": content or None, "tool_calls": calls}
        return message

    def new_id(self) -> str:
        """An id that the model's template takes back."""
        length = _LONG_ID if self._prefix else _SHORT_ID
        return self._prefix + "".join(secrets.choice(_ALPHABET) for _ in range(length))

    def _delta(self, event: ToolEvent) -> dict[str, Any]:
        if isinstance(event, Content):
            return {"content": event.text}
        if isinstance(event, CallBegins):
            return {"tool_calls": [{"index": event.index, **self._call(event.name)}]}
        assert isinstance(event, CallArguments)
        return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}

    def _call(self, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": ""}
        return {"id": self.new_id(), "type": "function", "function": function}
