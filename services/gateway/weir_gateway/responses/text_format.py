"""`text`: the form of the answer."""

from typing import Any

import orjson

from weir_core.errors import InvalidField
from weir_gateway.intake.output_format import ANY_OBJECT, OutputFormat
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.tool_fields import checked_name

_FIELD = "text.format.schema"
_TYPES = "text, json_object, json_schema"


def to_text_format(fields: Fields) -> tuple[OutputFormat | None, dict[str, Any]]:
    """What the answer must match, None for anything; and what the response tells of it.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD.
    """
    found, told = None, {"type": "text"}
    text = fields.nested("text")
    if text is not None:
        if text.raw("verbosity") not in (None, "medium"):
            raise text.unsupported("verbosity", "say in instructions how long the answer shall be")
        given = text.nested("format")
        text.refuse_unknown()
        if given is not None:
            found, told = _format(given)
    return found, {"text": {"format": told, "verbosity": "medium"}}


def _format(given: Fields) -> tuple[OutputFormat | None, dict[str, Any]]:
    kind = given.raw("type")
    if kind == "json_schema":
        return _schema(given)
    given.refuse_unknown()
    if kind == "text":
        return None, {"type": "text"}
    if kind == "json_object":
        return OutputFormat("json_schema", ANY_OBJECT, "text.format"), {"type": "json_object"}
    raise given.invalid("type", Shape(kind), f"one of {_TYPES}")


def _schema(given: Fields) -> tuple[OutputFormat, dict[str, Any]]:
    name = checked_name(given, "name")
    description = given.text("description")
    # Every schema is enforced, strict or not.
    given.boolean("strict")
    schema = given.raw("schema")
    given.refuse_unknown()
    if not isinstance(schema, dict):
        raise InvalidField(_FIELD, Shape(schema), "a JSON schema: an object")
    try:
        text = orjson.dumps(schema).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidField(_FIELD, Shape(schema), "JSON that can be written again") from None
    told = {"type": "json_schema", "name": name, "schema": schema, "strict": True}
    return OutputFormat("json_schema", text, _FIELD), told | {"description": description or None}
