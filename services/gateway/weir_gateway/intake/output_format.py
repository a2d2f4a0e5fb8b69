"""What the text of an answer must match, as it came."""

import json
from dataclasses import dataclass
from typing import Any

from weir.common.v1.sampling_pb2 import Grammar
from weir_core.errors import InvalidField
from weir_gateway.intake.shape import Shape
from weir_gateway.intake.text_checks import check_text

MAX_GRAMMAR_CHARACTERS = 65_536
MAX_SCHEMA_DEPTH = 32

ANY_OBJECT = '{"type":"object"}'


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """One grammar.

    Attributes:
        kind: `json_schema`, `regex`, `lark` or `tagged_json`, as `weir.common.v1.Grammar` has
            them.
        text: the schema as JSON, the expression, the grammar, the tags and their schema.
        field: what the door calls it.
    """

    kind: str
    text: str
    field: str

    def check(self) -> None:
        """Checks what needs no engine; that compiles it within bounds of its own.

        Raises:
            InvalidField: it is too long, too deep, no UTF-8, or no JSON schema at all.
        """
        if not 1 <= len(self.text) <= MAX_GRAMMAR_CHARACTERS:
            bound = f"1 to {MAX_GRAMMAR_CHARACTERS} characters"
            raise InvalidField(self.field, Shape(self.text), bound)
        check_text(self.field, self.text)
        if self.kind == "json_schema":
            self._check_schema()

    def to_message(self) -> Grammar:
        """As a worker takes it."""
        return Grammar(**{self.kind: self.text})

    def _check_schema(self) -> None:
        try:
            schema = json.loads(self.text)
        except (ValueError, RecursionError):
            raise InvalidField(self.field, Shape(self.text), "JSON") from None
        if not isinstance(schema, dict | bool):
            raise InvalidField(self.field, Shape(schema), "a JSON schema: an object")
        if _deeper(schema, MAX_SCHEMA_DEPTH):
            bound = f"at most {MAX_SCHEMA_DEPTH} levels deep"
            raise InvalidField(self.field, "a deeper schema", bound)


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list) or not value:
        return False
    if levels == 0:
        return True
    parts = value.values() if isinstance(value, dict) else value
    return any(_deeper(part, levels - 1) for part in parts)
