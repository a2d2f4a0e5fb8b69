"""The content blocks of one answer, from its text as it comes."""

from collections.abc import Iterator
from typing import Any

import orjson

from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.openai.tool_deltas import ToolDeltas
from weir_gateway.tools.events import CallArguments, CallBegins, Content, ToolEvent

Event = dict[str, Any]


class ContentBlocks:
    """Opens, fills and closes blocks.

    Args:
        prepared: the request.
    """

    def __init__(self, prepared: PreparedRequest) -> None:
        self._tools = ToolDeltas(prepared) if prepared.tool_use is not None else None
        self._index = -1
        self._kind = ""

    @property
    def called(self) -> bool:
        """Whether there was a call."""
        return self._tools is not None and self._tools.parser.calls > 0

    def feed(self, text: str) -> Iterator[Event]:
        """Events of new text."""
        for event in self._read(text):
            yield from self._of(event)

    def finish(self) -> Iterator[Event]:
        """The last events."""
        for event in [] if self._tools is None else self._tools.parser.finish():
            yield from self._of(event)
        yield from self._close()

    def whole(self, text: str) -> list[dict[str, Any]]:
        """The blocks of a whole answer; a call whose input was cut is told as text."""
        blocks: list[dict[str, Any]] = []
        for event in [*self.feed(text), *self.finish()]:
            if event["type"] == "content_block_start":
                blocks.append(dict(event["content_block"]))
                parts: list[str] = []
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                parts.append(delta["text"] if "text" in delta else delta["partial_json"])
            else:
                blocks[-1] = _filled(blocks[-1], "".join(parts))
        return blocks

    def _read(self, text: str) -> list[ToolEvent]:
        if self._tools is not None:
            return self._tools.parser.feed(text)
        return [Content(text)] if text else []

    def _of(self, event: ToolEvent) -> Iterator[Event]:
        if isinstance(event, CallBegins):
            assert self._tools is not None
            call = {"type": "tool_use", "id": self._tools.new_id(), "name": event.name}
            yield from self._open(call | {"input": {}})
            return
        if isinstance(event, CallArguments):
            yield self._delta({"type": "input_json_delta", "partial_json": event.text})
            return
        if self._kind != "text":
            yield from self._open({"type": "text", "text": ""})
        yield self._delta({"type": "text_delta", "text": event.text})

    def _open(self, block: dict[str, Any]) -> Iterator[Event]:
        yield from self._close()
        self._index += 1
        self._kind = block["type"]
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> Iterator[Event]:
        if self._kind:
            self._kind = ""
            yield {"type": "content_block_stop", "index": self._index}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def _filled(block: dict[str, Any], text: str) -> dict[str, Any]:
    if block["type"] == "text":
        return block | {"text": text}
    try:
        return block | {"input": orjson.loads(text)}
    except ValueError:
        return {"type": "text", "text": text}
