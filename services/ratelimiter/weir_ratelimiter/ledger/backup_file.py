"""The file of a back-up: gzipped JSON lines between a header and a footer.

Header: `{"format": "tokenweir-ledger", "version": 1, "schema": "0001", "created": ..., "rows": N}`.
Records: `["ledger_rows", {column: value, ...}]`. Footer: `{"sha256": ..., "records": N}`: the
digest of every line before it, and how many of them are records.
"""

import base64
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

_FORMAT = "tokenweir-ledger"
_VERSION = 1
_LONGEST_LINE = 1024 * 1024


T = TypeVar("T", bound=msgspec.Struct)


class BadBackup(Exception):
    """The file is no back-up, or not whole; the message says why."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says of itself.

    Attributes:
        schema: revision of the database that it was taken of.
        created: RFC 3339.
        rows: number of ledger rows.
    """

    format: str
    version: int
    schema: str
    created: str
    rows: int


class Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ends a whole file."""

    sha256: str
    records: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A row of a table; bytes are in base64."""

    table: str
    columns: dict[str, Any]


class Sink(Protocol):
    """Where a file is written to."""

    def write(self, data: bytes, /) -> int:
        """Take all of it."""


class BackupWriter:
    """Writes a file line by line; one without `finish` is not whole."""

    def __init__(self, file: Sink, schema: str, created: str, rows: int) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._records = 0
        self._line(Header(_FORMAT, _VERSION, schema, created, rows))

    def add(self, record: Record) -> None:
        """Write a record."""
        self._records += 1
        self._line(record)

    def finish(self) -> None:
        """Write the footer."""
        self._line(Footer(self._digest.hexdigest(), self._records))

    def _line(self, content: msgspec.Struct) -> None:
        line = msgspec.json.encode(content) + b"\n"
        self._digest.update(line)
        self._file.write(line)


def check_whole(path: Path) -> Header:
    """Read a file to its end; returns its header.

    Raises:
        BadBackup: it cannot be read, is of another kind or release, or was changed.
    """
    lines = _lines(path)
    first = next(lines, b"")
    header = _header(first)
    digest, records, last = hashlib.sha256(first), 0, b""
    for line in lines:
        if last:
            digest.update(last)
            records += 1
        last = line
    footer = _decoded(last, Footer, "it has no end")
    if footer.records != records or footer.sha256 != digest.hexdigest():
        raise BadBackup("its checksum does not match: it was changed or cut")
    return header


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file that `check_whole` has passed."""
    lines = _lines(path)
    next(lines)
    last = next(lines)
    for line in lines:
        yield _decoded(last, Record, "a record is malformed")
        last = line


def to_text(value: Any) -> Any:
    """A column's value as a file holds it."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _header(line: bytes) -> Header:
    header = _decoded(line, Header, "it is no back-up of a ledger")
    if header.format != _FORMAT:
        raise BadBackup("it is no back-up of a ledger")
    if header.version != _VERSION:
        raise BadBackup(f"it is of format {header.version}, this release reads {_VERSION}")
    return header


def _decoded(line: bytes, kind: type[T], why: str) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError:
        raise BadBackup(why) from None


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise BadBackup(f"it cannot be read: {error}") from error
