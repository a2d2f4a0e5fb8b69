"""`tools` and `tool_choice` in the flat shape of the Responses API."""

from dataclasses import replace
from typing import Any

from weir_core.errors import InvalidField
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.tool_fields import (
    MAX_TOOLS,
    Tool,
    ToolFields,
    check_writable,
    checked_name,
    tool_fields,
)

_CHOICES = "none, auto, required, or an object of type function or allowed_tools"
_HOSTED = "tools that the server runs are not offered: nothing is executed here, only function"
_MODES = {"auto": "auto", "required": "required"}


def to_tools(fields: Fields) -> tuple[ToolFields, dict[str, Any]]:
    """The tools of a body, and what its response tells of them.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD.
    """
    entries = fields.array("tools")
    if len(entries) > MAX_TOOLS:
        raise fields.invalid("tools", Shape(entries), f"at most {MAX_TOOLS} tools")
    tools = tuple(_tool(at, entry) for at, entry in enumerate(entries))
    parallel = True
    if fields.raw("parallel_tool_calls") is not None:
        parallel = fields.boolean("parallel_tool_calls")
    told = {
        "tools": [_told(tool) for tool in tools],
        "tool_choice": fields.raw("tool_choice") or "auto",
        "parallel_tool_calls": parallel,
    }
    choice, names = _choice(fields, tools)
    if not tools or choice == "none":
        return ToolFields(), told
    usable = tuple(tool for tool in tools if not names or tool["function"]["name"] in names)
    named = usable[0]["function"]["name"] if choice == "named" else ""
    found = tool_fields(usable, choice=choice, named=named, parallel=parallel)
    return replace(found, tools=tools), told


def _tool(at: int, value: Any) -> Tool:
    path = f"tools[{at}]"
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    kind = fields.raw("type")
    if kind != "function":
        if not isinstance(kind, str):
            raise fields.invalid("type", Shape(kind), "function")
        raise fields.unsupported("type", f"{kind[:32]!r}: {_HOSTED}")
    parameters = fields.raw("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise fields.invalid("parameters", Shape(parameters), "a JSON schema: an object")
    function: dict[str, Any] = {"name": checked_name(fields, "name")}
    if description := fields.text("description"):
        function["description"] = description
    function["parameters"] = parameters or {"type": "object", "properties": {}}
    if fields.boolean("strict"):
        function["strict"] = True
    for name in ("async", "defer_loading"):
        if fields.boolean(name):
            raise fields.unsupported(name, "every tool is told to the model, and called, at once")
    fields.refuse_unknown()
    check_writable(fields, "parameters", function)
    return {"type": "function", "function": function}


def _told(tool: Tool) -> dict[str, Any]:
    function = tool["function"]
    return {
        "type": "function",
        "name": function["name"],
        "description": function.get("description"),
        "parameters": function["parameters"],
        "strict": bool(function.get("strict")),
    }


def _choice(fields: Fields, tools: tuple[Tool, ...]) -> tuple[str, frozenset[str]]:
    """The kind of choice, and the tools that it is among; none named for all."""
    value = fields.raw("tool_choice")
    if value is None or value in ("none", "auto"):
        return value or "auto", frozenset()
    if value != "required" and not isinstance(value, dict):
        raise fields.invalid("tool_choice", Shape(value), _CHOICES)
    if not tools:
        raise fields.invalid("tool_choice", Shape(value), "none or auto where there are no tools")
    if value == "required":
        return "required", frozenset()
    choice = Fields(value, "tool_choice.")
    kind = choice.raw("type")
    if kind == "function":
        name = _known(choice, "name", choice.raw("name"), tools)
        choice.refuse_unknown()
        return "named", frozenset({name})
    if kind == "allowed_tools":
        return _allowed(choice, tools)
    if not isinstance(kind, str):
        raise choice.invalid("type", Shape(kind), "function or allowed_tools")
    raise choice.unsupported("type", f"{kind[:32]!r}: {_HOSTED} can be chosen")


def _allowed(choice: Fields, tools: tuple[Tool, ...]) -> tuple[str, frozenset[str]]:
    mode = choice.choice("mode", _MODES, "auto")
    entries = choice.array("tools")
    choice.refuse_unknown()
    if not entries:
        raise choice.invalid("tools", Shape(entries), "at least one of the tools")
    names = set()
    for at, entry in enumerate(entries):
        field = f"tools[{at}].name"
        name = entry.get("name") if isinstance(entry, dict) else None
        names.add(_known(choice, field, name, tools))
    return mode, frozenset(names)


def _known(choice: Fields, field: str, name: Any, tools: tuple[Tool, ...]) -> str:
    if isinstance(name, str) and any(tool["function"]["name"] == name for tool in tools):
        return name
    told = name if isinstance(name, str) and name.isascii() else Shape(name)
    raise choice.invalid(field, told, "the name of one of the tools")
