"""How commands print what they found."""

from collections.abc import Iterable, Sequence
from enum import StrEnum


class Output(StrEnum):
    """For a person, or for a program."""

    TEXT = "text"
    JSON = "json"


def table(rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Rows as aligned columns, the first being the heads; columns of `right` to the right."""
    cells = [tuple(row) for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)
