"""`tools`, `tool_choice` and `parallel_tool_calls` of a body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from weir_core.errors import InvalidField
from weir_gateway.intake.json_checks import WRITABLE, is_writable
from weir_gateway.intake.output_format import OutputFormat
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.tools.call_schema import call_schema, calls_schema
from weir_gateway.tools.tool_use import ToolUse

MAX_TOOLS = 128
_FIELDS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object"}
_CHOICES = "none, auto, required, or an object of type function"

Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFields:
    """What a body says of tools.

    Attributes:
        tools: that the model is told of.
        use: which it may call; None for none.
        output_format: what binds the answer to be calls; None for a free one.
    """

    tools: tuple[Tool, ...] = ()
    use: ToolUse | None = None
    output_format: OutputFormat | None = None


def to_tools(fields: Fields) -> ToolFields:
    """The tools of a chat.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD.
    """
    if not fields.has_any(_FIELDS):
        return ToolFields()
    entries = fields.array("tools")
    if len(entries) > MAX_TOOLS:
        raise fields.invalid("tools", Shape(entries), f"at most {MAX_TOOLS} tools")
    tools = tuple(_tool(at, entry) for at, entry in enumerate(entries))
    choice, named = _choice(fields, tools)
    parallel = True
    if fields.raw("parallel_tool_calls") is not None:
        parallel = fields.boolean("parallel_tool_calls")
    if not tools or choice == "none":
        return ToolFields()
    return tool_fields(tools, choice=choice, named=named, parallel=parallel)


def tool_fields(tools: tuple[Tool, ...], *, choice: str, named: str, parallel: bool) -> ToolFields:
    """What is asked for of checked tools.

    Args:
        tools: at least one.
        choice: `auto`, `required`, or `named`.
        named: the one that must be called.
        parallel: several may be.
    """
    strict = [tool["function"].pop("strict", False) for tool in tools]
    if choice == "auto":
        names = frozenset(tool["function"]["name"] for tool in tools)
        schema = _strict_schema(tools, strict) if any(strict) else ""
        return ToolFields(tools, ToolUse(names, parallel=parallel, call_schema=schema))
    callable_tools = [tool for tool in tools if not named or tool["function"]["name"] == named]
    most = None if parallel and not named else 1
    schema = orjson.dumps(calls_schema(callable_tools, most=most)).decode()
    names = frozenset(tool["function"]["name"] for tool in callable_tools)
    use = ToolUse(names, enforced=True, parallel=most is None)
    return ToolFields(tools, use, OutputFormat("json_schema", schema, "tools"))


def _tool(at: int, value: Any) -> Tool:
    path = f"tools[{at}]"
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    kind = fields.raw("type")
    if kind != "function":
        if not isinstance(kind, str):
            raise fields.invalid("type", Shape(kind), "function")
        raise fields.unsupported("type", f"{kind[:32]!r} tools cannot be used, only function")
    function = fields.nested("function")
    if function is None:
        raise fields.invalid("function", None, "an object")
    fields.refuse_unknown()
    return {"type": "function", "function": _function(function)}


def _function(fields: Fields) -> dict[str, Any]:
    name = checked_name(fields, "name")
    parameters = fields.raw("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise fields.invalid("parameters", Shape(parameters), "a JSON schema: an object")
    function: dict[str, Any] = {"name": name}
    if description := fields.text("description"):
        function["description"] = description
    function["parameters"] = parameters or dict(_NO_PARAMETERS)
    if fields.boolean("strict"):
        function["strict"] = True
    fields.refuse_unknown()
    check_writable(fields, "parameters", function)
    return function


def checked_name(fields: Fields, field: str) -> str:
    """The name of a tool. Raises InvalidField."""
    name = fields.raw(field)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        told = name if isinstance(name, str) and name.isascii() else Shape(name)
        raise fields.invalid(field, told, "1 to 64 characters of A-Z a-z 0-9 _ -")
    return name


def check_writable(fields: Fields, field: str, value: Any) -> None:
    """Refuses what cannot be written as JSON again; see `is_writable`.

    Raises:
        InvalidField: it cannot.
    """
    if not is_writable(value):
        raise fields.invalid(field, Shape(value), WRITABLE)


def _choice(fields: Fields, tools: tuple[Tool, ...]) -> tuple[str, str]:
    value = fields.raw("tool_choice")
    if value is None or value in ("none", "auto"):
        return value or "auto", ""
    if value != "required" and not isinstance(value, dict):
        raise fields.invalid("tool_choice", Shape(value), _CHOICES)
    if not tools:
        raise fields.invalid("tool_choice", Shape(value), "none or auto where there are no tools")
    if value == "required":
        return "required", ""
    return "named", _named(Fields(value, "tool_choice."), tools)


def _named(choice: Fields, tools: tuple[Tool, ...]) -> str:
    kind = choice.raw("type")
    if kind != "function":
        if not isinstance(kind, str):
            raise choice.invalid("type", Shape(kind), "function")
        raise choice.unsupported("type", f"{kind[:32]!r} cannot be chosen, only function")
    function = choice.nested("function")
    if function is None:
        raise choice.invalid("function", None, "an object with a name")
    choice.refuse_unknown()
    name = checked_name(function, "name")
    function.refuse_unknown()
    if all(tool["function"]["name"] != name for tool in tools):
        raise function.invalid("name", name, "the name of one of the tools")
    return name


def _strict_schema(tools: tuple[Tool, ...], strict: list[bool]) -> str:
    """Of a call: the arguments of tools that are not strict may be any object."""
    bound = [
        tool if is_strict else {"function": tool["function"] | {"parameters": _ANY_ARGUMENTS}}
        for tool, is_strict in zip(tools, strict, strict=True)
    ]
    return orjson.dumps(call_schema(bound)).decode()
