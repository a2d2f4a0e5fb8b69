"""Grammars in the library's own form, of what clients send as JSON."""

import json
from typing import Any

from llguidance import LLMatcher, StructTag

from weir_worker.grammars.multiples import multiples_problem

# White space between the parts of JSON: enough to indent, and an end, since a small model
# may never stop to write more of it.
_WHITESPACE = r"\n? {0,8}"


def schema_source(schema: str) -> str:
    """Of a JSON schema. Raises ValueError."""
    _check_multiples(json.loads(schema))
    if schema == "true":
        schema = "{}"
    return LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": _WHITESPACE})


def tagged_source(text: str) -> str:
    """Of free text in which JSON of a schema stands between two tags. Raises ValueError."""
    begin, schema, end = _tagged(text)
    _check_multiples(schema)
    bound = schema | {"x-guidance": {"whitespace_pattern": _WHITESPACE}}
    tag = StructTag(trigger=begin, begin=f"{begin}\n", grammar=bound, end=f"\n{end}")
    # The tags are text here: special tokens are no part of an answer's text.
    source = StructTag.to_grammar([tag], assume_special=False)
    return LLMatcher.grammar_from_lark(source)


def tagged_schema(text: str) -> str:
    """The schema of tagged JSON, as JSON. Raises ValueError."""
    return json.dumps(_tagged(text)[1])


def _tagged(text: str) -> tuple[str, dict[str, Any], str]:
    told = json.loads(text)
    if not isinstance(told, dict) or told.keys() != {"begin", "schema", "end"}:
        raise ValueError("it needs begin, schema and end")
    begin, schema, end = told["begin"], told["schema"], told["end"]
    if not (isinstance(begin, str) and begin and isinstance(end, str) and end):
        raise ValueError("begin and end are texts that are not empty")
    if not isinstance(schema, dict):
        raise ValueError("its schema is an object")
    return begin, schema, end


def _check_multiples(schema: Any) -> None:
    problem = multiples_problem(schema)
    if problem:
        raise ValueError(problem)
