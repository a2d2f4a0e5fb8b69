"""The reference of the HTTP door, from the OpenAPI document that the gateway serves."""

from collections.abc import Iterator, Mapping
from typing import Any

from table_cell import cell, escaped

from weir_gateway.openapi.document import document

_METHODS = ("get", "post", "put", "delete")
_GROUPS = {
    "generation": "Generation", "responses": "Responses", "anthropic": "Anthropic",
    "work": "Jobs, files and batches", "kept": "Sessions and prefixes", "account": "Account",
}  # fmt: skip
# Deeper than this a body is better read in the document itself.
_DEEPEST = 2


def routes() -> str:
    """Every operation with parameters, body and answers, in the groups of the document."""
    whole = document()
    lines: list[str] = []
    groups: dict[str, list[str]] = {}
    for path, item in whole["paths"].items():
        for method in _METHODS:
            if method in item:
                tag = item[method]["tags"][0]
                groups.setdefault(tag, []).extend(_Operation(whole, path, method).lines())
    for tag, told in groups.items():
        lines += ["", f"## {_GROUPS.get(tag, tag.capitalize())}", *told]
    return "\n".join(lines).strip()


class _Operation:
    """One method of one path as Markdown."""

    def __init__(self, whole: Mapping[str, Any], path: str, method: str) -> None:
        self._whole = whole
        self._title = f"{method.upper()} {path}"
        self._item = whole["paths"][path]
        self._operation = self._item[method]

    def lines(self) -> Iterator[str]:
        told = self._operation.get("summary", ""), self._operation.get("description", "")
        yield from ("", f"### `{self._title}`", "", escaped(" ".join(filter(None, told))))
        yield from self._parameters()
        yield from self._body()
        yield from ("", f"Answers: {'; '.join(self._answers())}.")

    def _parameters(self) -> Iterator[str]:
        found = [*self._item.get("parameters", ()), *self._operation.get("parameters", ())]
        if found:
            yield from ("", "| parameter | in | values | what it is |", "|---|---|---|---|")
        for one in map(self._resolved, found):
            needed = ", required" if one.get("required") and one["in"] != "path" else ""
            values = f"{self._values(one.get('schema', {}))}{needed}"
            told = cell(one.get("description", ""))
            yield f"| `{one['name']}` | {one['in']} | {values} | {told} |"

    def _body(self) -> Iterator[str]:
        body = self._resolved(self._operation.get("requestBody", {}))
        for kind, content in body.get("content", {}).items():
            rows = list(self._fields(self._resolved(content.get("schema", {})), "", 0))
            yield from ("", f"Body, `{kind}`:")
            if rows:
                yield from ("", "| field | values | what it is |", "|---|---|---|", *rows)

    def _fields(self, schema: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
        for part in schema.get("allOf", ()):
            yield from self._fields(self._resolved(part), prefix, depth)
        required = set(schema.get("required", ()))
        for name, field in schema.get("properties", {}).items():
            field = self._resolved(field)
            needed = ", required" if name in required else ""
            told = cell(field.get("description", ""))
            yield f"| `{prefix}{name}` | {self._values(field)}{needed} | {told} |"
            if depth < _DEEPEST:
                yield from self._fields(field, f"{prefix}{name}.", depth + 1)

    def _values(self, schema: Mapping[str, Any]) -> str:
        schema = self._resolved(schema)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return " or ".join(dict.fromkeys(self._values(one) for one in schema[several]))
        if "enum" in schema:
            return " / ".join("null" if one is None else f"`{one}`" for one in schema["enum"])
        if "const" in schema:
            return f"`{schema['const']}`"
        kind = schema.get("type", "any")
        kinds = [kind] if isinstance(kind, str) else kind
        text = " or ".join(f"list of {self._values(schema.get('items', {}))}" if one == "array"
                           else one for one in kinds)  # fmt: skip
        return ", ".join([text, *_bounds(schema)])

    def _answers(self) -> Iterator[str]:
        for status, answer in self._operation["responses"].items():
            told = self._resolved(answer).get("description", "").rstrip(".")
            yield f"{status} {escaped(told[:1].lower() + told[1:])}" if status < "4" else status

    def _resolved(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in part:
            found: Any = self._whole
            for name in part["$ref"].removeprefix("#/").split("/"):
                found = found[name.replace("~1", "/")]
            part = found
        return part


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    signs = (
        ("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"),
        ("minItems", "items >="), ("maxItems", "items <="), ("maxLength", "characters <="),
    )  # fmt: skip
    for name, sign in signs:
        if name in schema:
            yield f"{sign} {schema[name]}"
