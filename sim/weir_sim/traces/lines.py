"""Lines and fields of trace files, plain or gzipped."""

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from weir_sim.traces.trace_error import TraceError, bad_field

MAX_TOKENS = 10_000_000
"""More than any model takes: a larger number is a fault of the file."""
MAX_SECONDS = 10 * 365 * 86_400.0


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Opens a text file, unpacking `.gz`. Raises TraceError for what cannot be read."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8")
        ) as file:
            yield file
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error


def first_line(path: Path) -> str:
    """The first line, without its end. Raises TraceError."""
    with opened(path) as file:
        return file.readline().rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One line of a CSV file, with where it stands.

    Attributes:
        path: of the file.
        line: its number, from 1.
        values: by column.
    """

    path: Path
    line: int
    values: Mapping[str, str]

    def text(self, field: str) -> str:
        """A field as it stands."""
        return self.values[field]

    def whole(self, field: str, least: int = 1, most: int = MAX_TOKENS) -> int:
        """A whole number within bounds. Raises TraceError."""
        value = self.values[field]
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise bad_field(
                self.path, self.line, field, value, f"a whole number, {least} to {most}"
            )
        return number

    def number(self, field: str, least: float = 0.0, most: float = MAX_SECONDS) -> float:
        """A finite number within bounds. Raises TraceError."""
        value = self.values[field]
        try:
            number = float(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise bad_field(self.path, self.line, field, value, f"a number, {least} to {most}")
        return number


def since_first(row: CsvRow, field: str, passed_s: float) -> float:
    """Seconds since the first row. Raises TraceError when that is not the begin, or far away."""
    if not 0 <= passed_s <= MAX_SECONDS:
        bound = f"from 0 to {MAX_SECONDS:.0f} s after that of the first row"
        raise bad_field(row.path, row.line, field, row.text(field), bound)
    return passed_s


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[CsvRow]:
    """The lines of a CSV file with these columns (more are allowed), one at a time.

    Raises:
        TraceError: a column is missing, or a line has too few or too many fields.
    """
    with opened(path) as file:
        reader = csv.reader(file)
        head = next(reader, [])
        missing = [column for column in columns if column not in head]
        if missing:
            raise TraceError(f"{path}, line 1: columns are {head}; {missing} must be among them")
        for fields in _fields(path, reader):
            if len(fields) != len(head):
                raise bad_field(
                    path, reader.line_num, "the number of fields", len(fields), f"{len(head)}"
                )
            yield CsvRow(path, reader.line_num, dict(zip(head, fields, strict=True)))


def _fields(path: Path, reader: Any) -> Iterator[list[str]]:
    """What the reader reads; what it cannot is a TraceError."""
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TraceError(f"{path}, line {reader.line_num}: not CSV: {error}") from None
        yield fields
