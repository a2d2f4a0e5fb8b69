"""The output items of one response, from its text as it comes."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from weir_gateway.flow.delivery import Piece
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.openai.logprobs import chat_logprobs
from weir_gateway.openai.tool_deltas import ToolDeltas
from weir_gateway.responses.items import Item
from weir_gateway.text.token_trail import TokenTrail
from weir_gateway.tools.events import CallArguments, CallBegins, Content, ToolEvent

Event = dict[str, Any]


class OutputItems:
    """Opens, fills and closes messages and calls of functions.

    Its ids follow from that of the response: made again, an answer has the same.

    Args:
        prepared: the request.
        response_id: of the response.
    """

    def __init__(self, prepared: PreparedRequest, response_id: str) -> None:
        self._response_id = response_id
        self._prefix = "" if prepared.call_format is None else prepared.call_format.call_id
        self._tools = ToolDeltas(prepared) if prepared.tool_use is not None else None
        self._token_bytes = prepared.token_bytes
        self._trail: TokenTrail | None = None
        if prepared.sampling.HasField("logprobs"):
            sampling = prepared.sampling
            self._trail = TokenTrail(
                prepared.token_bytes, sampling.stop_token_ids, holds=bool(sampling.stop)
            )
        self.items: list[Item] = []
        """Those that were opened; all but the last are complete."""
        self._parts: list[str] = []
        self._logprobs: list[Any] = []

    def feed(self, piece: Piece) -> Iterator[Event]:
        """Events of new text and its tokens."""
        if self._trail is not None:
            tokens = self._trail.add(piece.token_ids, piece.logprobs, piece.text)
            if piece.text or tokens:
                told = chat_logprobs(tokens, self._token_bytes)["content"]
                yield from self._text(piece.text, told)
            return
        for event in self._read(piece.text):
            yield from self._of(event)

    def finish(self, status: str) -> Iterator[Event]:
        """The last events: `status` is that of the item that is still open."""
        for event in [] if self._tools is None else self._tools.parser.finish():
            yield from self._of(event)
        if self._trail is not None and (tokens := self._trail.finish()):
            yield from self._text("", chat_logprobs(tokens, self._token_bytes)["content"])
        if not self.items:
            yield from self._open_message()
        yield from self._close(status)

    def _read(self, text: str) -> list[ToolEvent]:
        if self._tools is not None:
            return self._tools.parser.feed(text)
        return [Content(text)] if text else []

    def _of(self, event: ToolEvent) -> Iterator[Event]:
        if isinstance(event, CallBegins):
            yield from self._open_call(event.name)
        elif isinstance(event, CallArguments):
            self._parts.append(event.text)
            yield self._event("response.function_call_arguments.delta", delta=event.text)
        else:
            yield from self._text(event.text, [])

    def _text(self, text: str, logprobs: Sequence[Any]) -> Iterator[Event]:
        if not self.items or self.items[-1]["type"] != "message":
            yield from self._open_message()
        self._parts.append(text)
        self._logprobs += logprobs
        yield self._of_part("response.output_text.delta", delta=text, logprobs=list(logprobs))

    def _open_message(self) -> Iterator[Event]:
        message = {"type": "message", "role": "assistant", "content": []}
        yield from self._open("msg", message)
        yield self._of_part("response.content_part.added", part=_part("", []))

    def _open_call(self, name: str) -> Iterator[Event]:
        call = {"type": "function_call", "name": name, "arguments": ""}
        call["call_id"] = self._call_id(len(self.items))
        yield from self._open("fc", call)

    def _open(self, prefix: str, item: Item) -> Iterator[Event]:
        yield from self._close("completed")
        item_id = f"{prefix}_{self._response_id.removeprefix('resp_')}_{len(self.items)}"
        self.items.append({"id": item_id, "status": "in_progress", **item})
        self._parts, self._logprobs = [], []
        yield self._of_item("response.output_item.added")

    def _close(self, status: str) -> Iterator[Event]:
        if not self.items or self.items[-1]["status"] != "in_progress":
            return
        item, text = self.items[-1], "".join(self._parts)
        if item["type"] == "message":
            part = _part(text, self._logprobs)
            yield self._of_part("response.output_text.done", text=text, logprobs=self._logprobs)
            yield self._of_part("response.content_part.done", part=part)
            item = item | {"content": [part]}
        else:
            yield self._event("response.function_call_arguments.done", arguments=text)
            item = item | {"arguments": text}
        self.items[-1] = item | {"status": status}
        yield self._of_item("response.output_item.done")

    def _of_item(self, kind: str) -> Event:
        return {"type": kind, "output_index": len(self.items) - 1, "item": self.items[-1]}

    def _of_part(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        item_id = self.items[-1]["id"]
        return {"type": kind, "item_id": item_id, "output_index": len(self.items) - 1, **fields}

    def _call_id(self, index: int) -> str:
        """An id that the model's template takes back."""
        length = 24 if self._prefix else 9
        digest = hashlib.sha256(f"{self._response_id} {index}".encode()).hexdigest()
        return self._prefix + digest[:length]


def _part(text: str, logprobs: Sequence[Any]) -> Item:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}
