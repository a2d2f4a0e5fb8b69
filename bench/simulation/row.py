"""What a row of the re-run table is, and what it may use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Figures = Mapping[str, float]


class NotMeasured(Exception):
    """A row cannot be run here; the message is its `why`."""


@dataclass(frozen=True)
class Context:
    """What a row may use.

    Attributes:
        traces: folder of the published traces ($TRACES); None when it is not given.
        quick: a short run that only shows that the row works.
        progress: told what is being run.
    """

    traces: Path | None
    quick: bool
    progress: Callable[[str], None]

    def file(self, name: str) -> Path | None:
        """A published file, by its path below the folder; None when it is not there."""
        if self.traces is None or not (self.traces / name).exists():
            return None
        return self.traces / name


@dataclass(frozen=True)
class Row:
    """What a row measured.

    Attributes:
        figures: with what is under test, by the names that `thresholds.json` knows.
        control: of the same names, with what is under test taken away (the lift, the aging, the
            cap); a subset will do. It must fail.
        why: one sentence on workload and relation, and where it does not hold, the reason.
    """

    figures: Figures
    control: Figures
    why: str


class RowModule(Protocol):
    """A module `rows.rNN`."""

    def run(self, context: Context) -> Row:
        """Measures. Raises NotMeasured."""
