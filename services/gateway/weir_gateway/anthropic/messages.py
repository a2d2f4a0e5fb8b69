"""Anthropic's `system` and `messages` as a chat."""

from collections.abc import Iterator
from typing import Any

from weir_core.errors import InvalidField
from weir_gateway.intake.checks import check_message_count
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.tool_fields import Tool, check_writable, checked_name
from weir_gateway.text.chat import Chat, ChatMessage

_ROLES = ("user", "assistant")


def to_chat(fields: Fields, tools: tuple[Tool, ...]) -> Chat:
    """The chat of a body.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD, naming message and field.
    """
    value = fields.raw("messages")
    if not isinstance(value, list) or not value:
        raise InvalidField("messages", Shape(value), "an array of at least one message")
    check_message_count("messages", value)
    messages = [*_system(fields)]
    for at, entry in enumerate(value):
        messages += _turn(f"messages[{at}]", entry)
    if messages[-1].role == "assistant":
        raise InvalidField(
            f"messages[{len(value) - 1}].role",
            "assistant",
            "user in the last message: answers cannot be begun for the model",
        )
    return Chat(tuple(messages), tools)


def _system(fields: Fields) -> list[ChatMessage]:
    text = _text(fields, "system", required=False)
    return [ChatMessage("system", text)] if text else []


def _turn(path: str, value: Any) -> list[ChatMessage]:
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    role = fields.raw("role")
    if role not in _ROLES:
        raise fields.invalid("role", Shape(role), f"one of {', '.join(_ROLES)}")
    content = fields.raw("content")
    fields.refuse_unknown()
    if isinstance(content, str):
        return [ChatMessage(role, content)]
    if role == "assistant":
        return [_assistant(fields)]
    return list(_user(fields))


def _assistant(fields: Fields) -> ChatMessage:
    texts, calls = [], []
    for block in _blocks(fields, "content"):
        kind = block.raw("type")
        if kind == "text":
            texts.append(_text_of(block))
        elif kind == "tool_use":
            calls.append(_call(block))
        else:
            raise _unreadable(block, kind)
        block.refuse_unknown()
    return ChatMessage("assistant", "".join(texts), tool_calls=tuple(calls))


def _user(fields: Fields) -> Iterator[ChatMessage]:
    """A turn for each result of a tool, and one for the texts between them."""
    texts: list[str] = []
    for block in _blocks(fields, "content"):
        kind = block.raw("type")
        if kind == "text":
            texts.append(_text_of(block))
        elif kind == "tool_result":
            if texts:
                yield ChatMessage("user", "".join(texts))
                texts = []
            yield _result(block)
        else:
            raise _unreadable(block, kind)
        block.refuse_unknown()
    if texts:
        yield ChatMessage("user", "".join(texts))


def _blocks(fields: Fields, name: str) -> Iterator[Fields]:
    value = fields.raw(name)
    if not isinstance(value, list) or not value:
        raise fields.invalid(name, Shape(value), "a string, or an array of at least one block")
    for at, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise fields.invalid(f"{name}[{at}]", Shape(entry), "an object")
        block = Fields(entry, f"{fields.path}{name}[{at}].")
        # Prefixes are cached without being asked for.
        block.nested("cache_control")
        yield block


def _text(fields: Fields, name: str, *, required: bool) -> str:
    """A string, or the joined texts of blocks."""
    value = fields.raw(name)
    if isinstance(value, str):
        return value
    if value is None and not required:
        return ""
    texts = []
    for block in _blocks(fields, name):
        kind = block.raw("type")
        if kind != "text":
            raise _unreadable(block, kind)
        texts.append(_text_of(block))
        block.refuse_unknown()
    return "".join(texts)


def _text_of(block: Fields) -> str:
    text = block.raw("text")
    if not isinstance(text, str):
        raise block.invalid("text", Shape(text), "a string")
    # What an SDK hands back from an earlier answer.
    block.raw("citations")
    return text


def _call(block: Fields) -> dict[str, Any]:
    name, given = checked_name(block, "name"), block.raw("input")
    if not isinstance(given, dict):
        raise block.invalid("input", Shape(given), "an object")
    check_writable(block, "input", given)
    block.raw("caller")
    function = {"name": name, "arguments": given}
    return {"id": block.text("id"), "type": "function", "function": function}


def _result(block: Fields) -> ChatMessage:
    call_id = block.text("tool_use_id")
    content = _text(block, "content", required=False)
    if block.boolean("is_error"):
        content = f"Error: {content}"
    return ChatMessage("tool", content, tool_call_id=call_id)


def _unreadable(block: Fields, kind: Any) -> Exception:
    if not isinstance(kind, str):
        return block.invalid("type", Shape(kind), "a string")
    return block.unsupported("type", f"{kind[:32]!r} blocks cannot be read here")
