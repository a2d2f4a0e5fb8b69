"""`response_format`, and the fields of our own that say the same."""

import re
from typing import Any

import orjson

from weir_core.errors import InvalidField
from weir_gateway.intake.output_format import ANY_OBJECT, OutputFormat
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_TYPES = "text, json_object, json_schema"
_OWN = ("json_schema", "regex", "lark_grammar")
_FIELDS = frozenset({"response_format", *_OWN})


def to_output_format(fields: Fields) -> OutputFormat | None:
    """What the answer must match; None for anything.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD.
    """
    if not fields.has_any(_FIELDS):
        return None
    given = (_response_format(fields), *(_own(fields, name) for name in _OWN))
    found = [entry for entry in given if entry is not None]
    if len(found) > 1:
        raise InvalidField(
            found[1].field, "set", f"left out, as {found[0].field} says already what to match"
        )
    return found[0] if found else None


def _own(fields: Fields, name: str) -> OutputFormat | None:
    value = fields.raw(name)
    if value is None:
        return None
    if name == "json_schema" and isinstance(value, dict | bool):
        value = _json(name, value)
    if not isinstance(value, str):
        raise fields.invalid(name, Shape(value), "a string")
    return OutputFormat("lark" if name == "lark_grammar" else name, value, name)


def _response_format(fields: Fields) -> OutputFormat | None:
    given = fields.nested("response_format")
    if given is None:
        return None
    kind = given.raw("type")
    if kind == "text":
        given.refuse_unknown()
        return None
    if kind == "json_object":
        given.refuse_unknown()
        return OutputFormat("json_schema", ANY_OBJECT, "response_format")
    if kind != "json_schema":
        raise given.invalid("type", kind, f"one of {_TYPES}")
    found = _schema(given)
    given.refuse_unknown()
    return found


def _schema(given: Fields) -> OutputFormat:
    inner = given.nested("json_schema")
    if inner is None:
        raise given.invalid("json_schema", None, "an object with name and schema")
    name = inner.raw("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise inner.invalid("name", name, "1 to 64 characters of A-Z a-z 0-9 _ -")
    inner.text("description")
    # Every schema is enforced, strict or not.
    inner.boolean("strict")
    schema = inner.raw("schema")
    inner.refuse_unknown()
    path = "response_format.json_schema.schema"
    if not isinstance(schema, dict):
        raise InvalidField(path, Shape(schema), "a JSON schema: an object")
    return OutputFormat("json_schema", _json(path, schema), path)


def _json(field: str, schema: Any) -> str:
    try:
        return orjson.dumps(schema).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidField(field, Shape(schema), "JSON that can be written again") from None
