"""What is wrong with a trace."""

from pathlib import Path


class TraceError(ValueError):
    """A trace cannot be read; the message names file, line, field, value and bound."""


def bad_field(path: Path, line: int, field: str, value: object, bound: str) -> TraceError:
    """An error about one field of one line; lines count from 1."""
    return TraceError(f"{path}, line {line}: {field} is {value!r}; it must be {bound}")
