"""Text of clients that spells a special token stays text: no turn or end of turn is forged.

A template's special tokens are the only ones that a rendered chat may hold. Where a client's text
spells one, a mark that no text holds is put behind its first character before the chat is
rendered, and the rendering is tokenised in the pieces between the marks.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from weir_core.errors import Reason, WeirError
from weir_gateway.text.chat import Chat, ChatMessage

# Unicode's noncharacters, which are for no exchange of text.
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


class ControlTokens:
    """Finds special tokens that clients spell.

    Args:
        special: the texts of a tokenizer's special tokens.
    """

    def __init__(self, special: Iterable[str]) -> None:
        # Of one character there is nothing to part.
        texts = sorted((text for text in special if len(text) > 1), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def parted(self, chat: Chat) -> tuple[Chat, str]:
        """The chat with every such text parted by a mark, and the mark; empty: there is none.

        Raises:
            WeirError: TEMPLATE_FAILED, the chat holds every character that could be the mark.
        """
        if self._pattern is None or not any(map(self._pattern.search, _texts(chat))):
            return chat, ""
        whole = "".join(_texts(chat))
        mark = next((mark for mark in _MARKS if mark not in whole), "")
        if not mark:
            raise WeirError(
                Reason.TEMPLATE_FAILED,
                "the messages hold special tokens of the model and every noncharacter from "
                "U+FDD0 to U+FDEF; leave one of them out",
                field="messages",
            )
        return self._with(chat, mark), mark

    def _with(self, chat: Chat, mark: str) -> Chat:
        pattern = self._pattern
        assert pattern is not None

        def part(value: Any) -> Any:
            if isinstance(value, str):
                return pattern.sub(lambda found: f"{found[0][0]}{mark}{found[0][1:]}", value)
            if isinstance(value, Mapping):
                return {part(key): part(inner) for key, inner in value.items()}
            if isinstance(value, list | tuple):
                return type(value)(part(inner) for inner in value)
            return value

        def of(message: ChatMessage) -> ChatMessage:
            return replace(
                message,
                content=part(message.content),
                name=part(message.name),
                tool_call_id=part(message.tool_call_id),
                tool_calls=part(message.tool_calls),
            )

        return Chat(tuple(map(of, chat.messages)), part(chat.tools))


def pieces_of(rendered: str, mark: str) -> list[str]:
    """A rendering between its marks; templates may have written them as JSON does."""
    return rendered.replace(f"\\u{ord(mark):04x}", mark).split(mark)


def _texts(chat: Chat) -> Iterable[str]:
    for message in chat.messages:
        yield from (message.content, message.name, message.tool_call_id)
        for call in message.tool_calls:
            yield from _of_json(call)
    for tool in chat.tools:
        yield from _of_json(tool)


def _of_json(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _of_json(key)
            yield from _of_json(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _of_json(inner)
