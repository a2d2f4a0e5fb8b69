"""A request body as a JSON object, read strictly.

The standard library's parser, since it alone lets a repeated key and NaN be refused; both are
silently accepted by others, and both change what a request costs.
"""

import json
from typing import Any, NoReturn

from weir_core.errors import Reason, WeirError


def parse_object(body: bytes) -> dict[str, Any]:
    """The object that a body holds.

    Raises:
        WeirError: INVALID_FIELD on `body`: not UTF-8, not JSON, NaN or Infinity, a repeated
            key, nested too deeply, or no object.
    """
    if not body:
        raise _invalid("it is empty; it must be a JSON object")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(f"it is not UTF-8 at byte {error.start}") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _invalid(f"it is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _invalid("it is nested too deeply") from None
    except ValueError as error:
        # A number of more than 4,300 digits.
        raise _invalid(f"it is not JSON: {str(error)[:80]}") from None
    if not isinstance(value, dict):
        raise _invalid("it is not a JSON object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _invalid(f"the key {_repeated(pairs)[:64]!r} is there twice in one object")
    return value


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise ValueError("no key is repeated")


def _constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not JSON; numbers must be finite")


def _invalid(problem: str) -> WeirError:
    return WeirError(
        Reason.INVALID_FIELD, f"the request body cannot be read: {problem}", field="body"
    )


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
