"""`GET /openapi.json`: what the HTTP door takes and answers, as OpenAPI 3.1.

The parts are written by hand, a file a group of paths. What every operation has in common is
added here from the table of errors, so that it is true of all of them.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import orjson
import yaml

from weir_core.errors import WIRE_CODES, Reason

_METHODS = frozenset({"get", "post", "put", "delete"})
_OPEN: list[dict[str, list[str]]] = [{}]
_NEVER_OF_HTTP = frozenset({Reason.NOT_LEADER, Reason.STALE_ATTEMPT, Reason.GRANT_INVALID})

Document = dict[str, Any]


@cache
def openapi_json() -> bytes:
    """The document as it is served."""
    return orjson.dumps(document())


def document() -> Document:
    """The document, made anew from its parts."""
    whole: Document = {"paths": {}, "components": {}}
    for part in _parts():
        whole["paths"] |= part.pop("paths", {})
        components = part.pop("components", {})
        for kind, named in components.items():
            whole["components"].setdefault(kind, {}).update(named)
        whole |= part
    for operation in _operations(whole):
        _complete(operation)
    return whole


def _parts() -> Iterator[Document]:
    folder = files(__package__) / "parts"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            yield yaml.safe_load(path.read_text(encoding="utf-8"))


def _operations(whole: Document) -> Iterator[Document]:
    for path in whole["paths"].values():
        yield from (operation for method, operation in path.items() if method in _METHODS)


def _complete(operation: Document) -> None:
    """Adds the errors that any call of a tenant may meet, in the form of the operation's door."""
    if operation.get("security") == _OPEN:
        return
    form = "AnthropicError" if "anthropic" in operation["tags"] else "Error"
    schema = {"$ref": f"#/components/schemas/{form}"}
    for status in _statuses():
        operation["responses"].setdefault(
            str(status),
            {
                "description": "An error; `reason` says which, `message` what to do.",
                "headers": {"x-request-id": {"$ref": "#/components/headers/RequestId"}},
                "content": {"application/json": {"schema": schema}},
            },
        )


def _statuses() -> list[int]:
    found = {wire.http for reason, wire in WIRE_CODES.items() if reason not in _NEVER_OF_HTTP}
    return sorted(found)
