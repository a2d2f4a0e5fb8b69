"""What an output must match."""

from enum import StrEnum

import msgspec


class GrammarKind(StrEnum):
    """How a grammar is written; the names of `weir.common.v1.Grammar`."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    TAGGED_JSON = "tagged_json"


class Grammar(msgspec.Struct, frozen=True, array_like=True):
    """A grammar as a client wrote it.

    Attributes:
        text: JSON schema as JSON, regular expression, Lark grammar with a rule `start`, or
            `{"begin", "schema", "end"}` as JSON.
    """

    kind: GrammarKind
    text: str
