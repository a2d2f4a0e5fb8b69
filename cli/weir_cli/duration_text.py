"""Lengths of time as people write them: `90`, `90s`, `5m`, `1h`."""

import re

import typer

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def seconds_of_text(text: str) -> float:
    """Seconds of such a text. Raises BadParameter."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS:
        raise typer.BadParameter(f"{text!r} is no length of time; write 90s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def duration_text(seconds: float) -> str:
    """Short: `45 s`, `5 min`, `1.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
