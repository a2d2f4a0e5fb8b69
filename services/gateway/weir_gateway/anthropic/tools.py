"""Anthropic's `tools` and `tool_choice`."""

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

_CHOICES = {"auto": "auto", "any": "required", "tool": "named", "none": "none"}


def to_tools(fields: Fields) -> ToolFields:
    """The tools of a body.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD.
    """
    entries = fields.array("tools")
    if len(entries) > MAX_TOOLS:
        raise fields.invalid("tools", Shape(entries), f"at most {MAX_TOOLS} tools")
    tools = tuple(_tool(at, entry) for at, entry in enumerate(entries))
    given = fields.nested("tool_choice")
    choice, named, parallel = ("auto", "", True) if given is None else _choice(given, tools)
    if not tools and choice not in ("auto", "none"):
        raise fields.invalid("tool_choice", choice, "auto or none where there are no tools")
    if not tools or choice == "none":
        return ToolFields()
    return tool_fields(tools, choice=choice, named=named, parallel=parallel)


def _tool(at: int, value: Any) -> Tool:
    path = f"tools[{at}]"
    if not isinstance(value, dict):
        raise InvalidField(path, Shape(value), "an object")
    fields = Fields(value, f"{path}.")
    kind = fields.text("type", "custom")
    if kind != "custom":
        raise fields.unsupported("type", f"{kind[:32]!r} tools are not run here, only custom ones")
    function: dict[str, Any] = {"name": checked_name(fields, "name")}
    if description := fields.text("description"):
        function["description"] = description
    schema = fields.raw("input_schema")
    if not isinstance(schema, dict):
        raise fields.invalid("input_schema", Shape(schema), "a JSON schema: an object")
    function["parameters"] = schema
    if fields.boolean("strict"):
        function["strict"] = True
    fields.nested("cache_control")
    fields.refuse_unknown()
    check_writable(fields, "input_schema", function)
    return {"type": "function", "function": function}


def _choice(given: Fields, tools: tuple[Tool, ...]) -> tuple[str, str, bool]:
    choice = given.choice("type", _CHOICES, "")
    if not choice:
        raise given.invalid("type", None, f"one of {', '.join(_CHOICES)}")
    named = ""
    if choice == "named":
        named = checked_name(given, "name")
        if all(tool["function"]["name"] != named for tool in tools):
            raise given.invalid("name", named, "the name of one of the tools")
    parallel = not given.boolean("disable_parallel_tool_use")
    given.refuse_unknown()
    return choice, named, parallel
