"""Which part of a JSON schema cannot be used."""

import json
from collections.abc import Callable, Iterator
from typing import Any

# Keywords that hold schemas: by name, in a list, alone.
_BY_NAME = ("$defs", "definitions", "properties", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ALONE = ("items", "additionalProperties", "contains", "not", "if", "then", "else")
_MOST_CHECKS = 50

Check = Callable[[str], str]
"""JSON schema as text -> what is wrong with it, or nothing."""


class SchemaFault:
    """Finds the smallest part of a faulty schema that is faulty by itself.

    A compiler says what is wrong but not where. So each part is tried alone, with the
    definitions of the whole, from the outside to the inside.

    Args:
        check: compiles a schema.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._checks_left = _MOST_CHECKS

    def find(self, schema: Any, problem: str) -> tuple[str, str]:
        """The path of the part, such as `$.properties.age`, and its problem.

        Args:
            schema: the whole.
            problem: what is wrong with the whole.
        """
        shared = {}
        if isinstance(schema, dict):
            shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
        path = "$"
        while True:
            inner = self._faulty_part(schema, shared)
            if inner is None:
                return path, problem
            step, schema, problem = inner
            path += step

    def _faulty_part(self, schema: Any, shared: dict[str, Any]) -> tuple[str, Any, str] | None:
        for step, part in _parts(schema):
            if not isinstance(part, dict) or self._checks_left <= 0:
                continue
            self._checks_left -= 1
            problem = self._check(json.dumps(shared | part))
            if problem:
                return step, part, problem
        return None


def _parts(schema: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(schema, dict):
        return
    for name in _BY_NAME:
        if isinstance(schema.get(name), dict):
            yield from ((f".{name}{_step(key)}", part) for key, part in schema[name].items())
    for name in _LISTS:
        if isinstance(schema.get(name), list):
            yield from ((f".{name}[{at}]", part) for at, part in enumerate(schema[name]))
    for name in _ALONE:
        if name in schema:
            yield f".{name}", schema[name]


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{json.dumps(key[:64])}]"
