"""OpenAI's `messages` as a chat."""

from collections.abc import Mapping
from typing import Any

import orjson

from weir_core.errors import InvalidField
from weir_gateway.intake.checks import check_message_count
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.tool_fields import checked_name
from weir_gateway.text.chat import Chat, ChatMessage

_REFUSED = ("audio", "function_call")
# What an SDK hands back from an earlier answer.
_IGNORED = ("refusal", "annotations", "reasoning_content")
_BESIDE_TEXT = frozenset({"name", "tool_call_id", "tool_calls", *_REFUSED, *_IGNORED})


def to_chat(fields: Fields, tools: tuple[Mapping[str, Any], ...] = ()) -> Chat:
    """The chat of a request body, with the tools that the model is told of.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD, naming message and field.
    """
    value = fields.raw("messages")
    if not isinstance(value, list) or not value:
        raise InvalidField("messages", Shape(value), "an array of at least one message")
    # Before a look at any of them: the look itself has a price.
    check_message_count("messages", value)
    return Chat(tuple(_message(at, entry) for at, entry in enumerate(value)), tools)


def _message(at: int, value: Any) -> ChatMessage:
    path = f"messages[{at}]"
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    role = fields.raw("role")
    if not isinstance(role, str):
        raise fields.invalid("role", role, "a string")
    if fields.has_any(_BESIDE_TEXT):
        message = _with_more(fields, role, path)
    else:
        message = ChatMessage(role, _content(fields, required=True))
    fields.refuse_unknown()
    return message


def _with_more(fields: Fields, role: str, path: str) -> ChatMessage:
    calls = fields.array("tool_calls")
    tool_calls = tuple(_tool_call(f"{path}.tool_calls[{n}]", c) for n, c in enumerate(calls))
    message = ChatMessage(
        role=role,
        content=_content(fields, required=not tool_calls),
        name=fields.text("name"),
        tool_call_id=fields.text("tool_call_id"),
        tool_calls=tool_calls,
    )
    for absent in _REFUSED:
        if fields.raw(absent) is not None:
            raise fields.unsupported(absent, "send text alone")
    for ignored in _IGNORED:
        fields.raw(ignored)
    return message


def _content(fields: Fields, *, required: bool) -> str:
    value = fields.raw("content")
    if isinstance(value, str):
        return value
    if value is None and not required:
        return ""
    if not isinstance(value, list):
        raise fields.invalid("content", Shape(value), "a string or an array of text parts")
    return "".join(_part(fields, at, part) for at, part in enumerate(value))


def _part(fields: Fields, at: int, value: Any) -> str:
    name = f"content[{at}]"
    if not isinstance(value, dict):
        raise fields.invalid(name, Shape(value), "an object")
    kind = value.get("type")
    if kind != "text":
        if not isinstance(kind, str):
            raise fields.invalid(f"{name}.type", kind, "a string")
        raise fields.unsupported(f"{name}.type", f"{kind[:32]!r} parts cannot be read, only text")
    text = value.get("text")
    if not isinstance(text, str):
        raise fields.invalid(f"{name}.text", Shape(text), "a string")
    return text


def _tool_call(path: str, value: Any) -> Mapping[str, Any]:
    """A call as templates read it: its arguments are an object there, not text."""
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    if fields.raw("type") not in (None, "function"):
        raise fields.unsupported("type", "only calls of functions can be read")
    function = fields.nested("function")
    if function is None:
        raise fields.invalid("function", None, "an object with name and arguments")
    call_id = fields.text("id")
    fields.raw("index")
    fields.refuse_unknown()
    name = checked_name(function, "name")
    arguments = _arguments(function)
    function.refuse_unknown()
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _arguments(function: Fields) -> dict[str, Any]:
    text = function.text("arguments")
    try:
        value = orjson.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise function.invalid("arguments", Shape(text), "the text of a JSON object")
    return value
