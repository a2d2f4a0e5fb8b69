"""The JSON schema of an answer that must be calls of tools."""

from collections.abc import Mapping, Sequence
from typing import Any

# Their values are data, whatever keys they have.
_DATA = frozenset({"const", "enum", "default", "examples"})


def calls_schema(tools: Sequence[Mapping[str, Any]], *, most: int | None) -> dict[str, Any]:
    """The schema of an array of `{"name": ..., "arguments": ...}`.

    Args:
        tools: in OpenAI's shape, at least one.
        most: calls at most; None for any number.
    """
    one = call_schema(tools)
    schema = {"$defs": one.pop("$defs"), "type": "array", "minItems": 1, "items": one}
    if most is not None:
        schema["maxItems"] = most
    return schema


def call_schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of one `{"name": ..., "arguments": ...}` of any of the tools."""
    functions = [tool["function"] for tool in tools]
    return {
        "$defs": {
            f"tool{at}": _moved(function["parameters"], f"#/$defs/tool{at}")
            for at, function in enumerate(functions)
        },
        "anyOf": [_call(at, function) for at, function in enumerate(functions)],
    }


def _call(at: int, function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        # In this order: the name is told before its arguments are written.
        "properties": {
            "name": {"const": function["name"]},
            "arguments": {"$ref": f"#/$defs/tool{at}"},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, place: str) -> Any:
    """A schema whose references into itself hold at another place."""
    if isinstance(schema, list):
        return [_moved(entry, place) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and value.startswith("#"):
            moved[key] = place + value[1:]
        else:
            moved[key] = value if key in _DATA else _moved(value, place)
    return moved
