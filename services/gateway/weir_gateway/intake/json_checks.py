"""JSON values that can be kept and told again."""

import json
from typing import Any

import orjson

WRITABLE = "JSON that can be written again"


def is_writable(value: Any) -> bool:
    """Whether a value that was read can be written as JSON.

    Not so are lone surrogates, numbers beyond 64 bits or beyond what floats hold, such as 1e999,
    NaN, and what is nested more deeply than some 250 levels.
    """
    try:
        orjson.dumps(value)
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
