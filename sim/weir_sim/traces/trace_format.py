"""What a reader of one trace format is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_sim.traces.trace_row import TraceRow


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """Which part of a trace is wanted, and how what it leaves open is drawn.

    Attributes:
        from_s: on the trace's own axis.
        until_s: exclusive; infinity for the end.
        seed: for formats that hold distributions instead of requests.
    """

    from_s: float = 0.0
    until_s: float = float("inf")
    seed: int = 0


class TraceFormat(Protocol):
    """One published format."""

    @property
    def name(self) -> str:
        """As `--format` calls it."""

    @property
    def granularity(self) -> int:
        """Tokens that one of its prefix ids stands for."""

    @property
    def timed(self) -> bool:
        """Whether rows have arrival times."""

    def matches(self, first_line: str) -> bool:
        """Whether a file that begins so is of this format."""

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order of the file, within the span. Raises TraceError."""


@dataclass(frozen=True)
class CsvFormat:
    """What CSV formats have in common.

    Attributes:
        name: as `--format` calls it.
        columns: that must be there; a file with them is recognised.
        timed: whether rows have arrival times.
        granularity: tokens a prefix id.
    """

    name: str
    columns: tuple[str, ...]
    timed: bool = True
    granularity: int = PREFIX_GRANULARITY

    def matches(self, first_line: str) -> bool:
        """By its columns."""
        return set(self.columns) <= {column.strip() for column in first_line.split(",")}


def within(arrival_s: float, span: ReadSpan) -> bool:
    """Whether a moment lies in the span."""
    return span.from_s <= arrival_s < span.until_s
