"""One line of an input file."""

import json
from dataclasses import dataclass
from typing import Any

from weir_core.errors import WeirError
from weir_gateway.batches.batch import BatchError
from weir_gateway.batches.input_lines import InputLine
from weir_gateway.openai.json_body import parse_object

_FIELDS = frozenset({"custom_id", "method", "url", "body"})
_LONGEST_ID = 512


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A request of a batch.

    Attributes:
        custom_id: the client's name for it.
        model: as the body names it.
        body: JSON, as the endpoint takes it.
    """

    custom_id: str
    model: str
    body: bytes


class BadLine(Exception):
    """A line that is not in order."""

    def __init__(self, code: str, message: str, param: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.param = param

    def at(self, number: int) -> BatchError:
        """As it is told; `number` is the line's, from 1."""
        return BatchError(code=self.code, message=str(self), line=number, param=self.param)


def read_line(line: InputLine, endpoint: str, longest: int) -> BatchLine:
    """Reads a line.

    Args:
        line: what stands there.
        endpoint: that all lines must name.
        longest: bytes of a line.

    Raises:
        BadLine: what is wrong with it.
    """
    if line.content is None:
        raise BadLine(
            "line_too_long", f"the line has {line.size} bytes; at most {longest} are taken"
        )
    try:
        values = parse_object(line.content)
    except WeirError as error:
        told = error.message.replace("the request body", "the line")
        raise BadLine("invalid_json_line", told) from None
    for name in values:
        if name not in _FIELDS:
            param = name if name.isascii() and name.isprintable() else ""
            raise BadLine("unknown_field", f"a line has no field {name[:64]!r}", param[:64])
    return BatchLine(
        custom_id=_custom_id(values),
        model=_checked_body(values, endpoint),
        # ASCII, so that what is no text in UTF-8 survives too.
        body=json.dumps(values["body"], separators=(",", ":")).encode(),
    )


def _custom_id(values: dict[str, Any]) -> str:
    custom_id = values.get("custom_id")
    if custom_id is None:
        raise BadLine(
            "missing_required_parameter",
            "the line has no custom_id; each needs its own",
            "custom_id",
        )
    if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= _LONGEST_ID:
        raise BadLine(
            "invalid_custom_id",
            f"custom_id is {_shown(custom_id)}; it must be a string of 1 to {_LONGEST_ID} "
            "characters",
            "custom_id",
        )
    if not custom_id.isprintable() or _is_broken(custom_id):
        raise BadLine(
            "invalid_custom_id",
            f"custom_id is {_shown(custom_id)}; it must be of printable characters",
            "custom_id",
        )
    return custom_id


def _checked_body(values: dict[str, Any], endpoint: str) -> str:
    method, url, body = values.get("method"), values.get("url"), values.get("body")
    if method != "POST":
        raise BadLine("invalid_method", f"method is {_shown(method)}; it must be POST", "method")
    if url != endpoint:
        raise BadLine(
            "invalid_url",
            f"url is {_shown(url)}; it must be the batch's endpoint, {endpoint}",
            "url",
        )
    if not isinstance(body, dict):
        raise BadLine("invalid_request", "body is no object; it must be the request", "body")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadLine(
            "missing_required_parameter", "body.model must be the name of a model", "body.model"
        )
    for name in ("stream", "background"):
        if body.get(name):
            raise BadLine(
                "invalid_request", f"body.{name} goes with no batch; leave it out", f"body.{name}"
            )
    return model


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _is_broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)
