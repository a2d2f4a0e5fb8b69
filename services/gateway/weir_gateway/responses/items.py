"""`input` as items that are kept, and items as a chat."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from weir_core.errors import InvalidField
from weir_gateway.intake.checks import check_message_count
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.tool_fields import check_writable, checked_name
from weir_gateway.text.chat import Chat, ChatMessage

Item = dict[str, Any]

_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = ("input_text", "output_text", "text")
_MAX_ID = 128


def to_items(fields: Fields) -> list[Item]:
    """The items of a body's `input`.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD, naming item and field.
    """
    value = fields.raw("input")
    if isinstance(value, str):
        check_writable(fields, "input", value)
        return [_message_item("user", value, "")]
    if not isinstance(value, list) or not value:
        raise fields.invalid("input", Shape(value), "a string, or an array of at least one item")
    check_message_count("input", value)
    return [_item(f"input[{at}]", entry) for at, entry in enumerate(value)]


def to_chat(instructions: str, items: Iterable[Item], tools: Sequence[Mapping[str, Any]]) -> Chat:
    """What the model is told: instructions, then the items; calls join the turn before them."""
    messages = [ChatMessage("system", instructions)] if instructions else []
    for item in items:
        if item["type"] == "function_call_output":
            messages.append(
                ChatMessage("tool", text_of(item["output"]), tool_call_id=item["call_id"])
            )
        elif item["type"] == "function_call":
            before = ""
            calls: tuple[Mapping[str, Any], ...] = ()
            if messages and messages[-1].role == "assistant":
                last = messages.pop()
                before, calls = last.content, last.tool_calls
            messages.append(ChatMessage("assistant", before, tool_calls=(*calls, _call(item))))
        else:
            messages.append(ChatMessage(item["role"], text_of(item["content"])))
    return Chat(tuple(messages), tuple(tools))


def text_of(content: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of kept content."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part.get("refusal") or "" for part in content)


def _item(path: str, value: Any) -> Item:
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    kind = fields.raw("type")
    if kind is None or kind == "message":
        item = _message(fields)
    elif kind == "function_call":
        item = _function_call(fields)
    elif kind == "function_call_output":
        item = _function_call_output(fields)
    elif isinstance(kind, str):
        why = f"{kind[:32]!r} items cannot be read here, only message, function_call and "
        raise fields.unsupported("type", f"{why}function_call_output")
    else:
        raise fields.invalid("type", Shape(kind), "a string")
    # What an SDK hands back from an earlier answer.
    fields.choice("status", {"completed": "", "incomplete": "", "in_progress": ""}, "")
    for ignored in ("phase", "caller", "created_by"):
        fields.raw(ignored)
    fields.refuse_unknown()
    check_writable(fields, "type", item)
    return item


def _message(fields: Fields) -> Item:
    role = fields.raw("role")
    if role not in _ROLES:
        raise fields.invalid("role", Shape(role), f"one of {', '.join(_ROLES)}")
    return _message_item(role, _content(fields, "content"), _id(fields))


def _message_item(role: str, text: str, item_id: str) -> Item:
    part: dict[str, Any] = {"type": "input_text", "text": text}
    if role == "assistant":
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": item_id or _new_id("msg"),
        "type": "message",
        "status": "completed",
        "role": role,
        "content": [part],
    }


def _function_call(fields: Fields) -> Item:
    name = checked_name(fields, "name")
    arguments = fields.text("arguments")
    try:
        value = orjson.loads(arguments or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise fields.invalid("arguments", Shape(arguments), "the text of a JSON object")
    return {
        "id": _id(fields) or _new_id("fc"),
        "type": "function_call",
        "status": "completed",
        "call_id": _call_id(fields),
        "name": name,
        "arguments": arguments or "{}",
    }


def _function_call_output(fields: Fields) -> Item:
    output = _content(fields, "output")
    fields.text("name")
    return {
        "id": _id(fields) or _new_id("fco"),
        "type": "function_call_output",
        "status": "completed",
        "call_id": _call_id(fields),
        "output": output,
    }


def _content(fields: Fields, name: str) -> str:
    value = fields.raw(name)
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise fields.invalid(name, Shape(value), "a string or an array of text parts")
    return "".join(_part(fields, f"{name}[{at}]", part) for at, part in enumerate(value))


def _part(fields: Fields, name: str, value: Any) -> str:
    if not isinstance(value, dict):
        raise fields.invalid(name, Shape(value), "an object")
    kind = value.get("type")
    field = "refusal" if kind == "refusal" else "text"
    if kind not in (*_TEXTS, "refusal"):
        if not isinstance(kind, str):
            raise fields.invalid(f"{name}.type", Shape(kind), "a string")
        why = f"{kind[:32]!r} parts cannot be read, only {', '.join(_TEXTS)}"
        raise fields.unsupported(f"{name}.type", why)
    text = value.get(field)
    if not isinstance(text, str):
        raise fields.invalid(f"{name}.{field}", Shape(text), "a string")
    return text


def _call(item: Item) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": orjson.loads(item["arguments"])}
    return {"id": item["call_id"], "type": "function", "function": function}


def _id(fields: Fields) -> str:
    value = fields.text("id")
    if len(value) > _MAX_ID:
        raise fields.invalid("id", Shape(value), f"at most {_MAX_ID} characters")
    return value


def _call_id(fields: Fields) -> str:
    value = fields.text("call_id")
    if not 1 <= len(value) <= _MAX_ID:
        bound = f"1 to {_MAX_ID} characters: the call_id of the call"
        raise fields.invalid("call_id", Shape(value), bound)
    return value


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"
