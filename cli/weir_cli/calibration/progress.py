"""How far a calibration is, and how long it will still take."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class CalibrationProgress:
    """A bar for a person; lines, one a measurement, for a log.

    Args:
        seconds: expected of everything.
        quiet: tell nothing.
    """

    def __init__(self, seconds: float, *, quiet: bool = False) -> None:
        self._seconds = seconds
        self._done_s = 0.0
        self._took_s = self._measured_s = 0.0
        self._quiet = quiet
        console = Console(file=sys.stderr)
        self._bar = RichProgress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self._lines = not quiet and not console.is_terminal
        self._task: TaskID = self._bar.add_task("starting", total=seconds)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    @contextmanager
    def part(self, name: str, expected_s: float) -> Iterator[None]:
        """A measurement that is expected to take so long."""
        self._bar.update(self._task, description=name)
        begin = time.monotonic()
        yield
        took_s = time.monotonic() - begin
        self._took_s += took_s
        self._measured_s += expected_s
        self.credit(expected_s)
        if self._lines:
            print(f"{name}: {took_s:.1f} s, {self.left_text()} left", file=sys.stderr, flush=True)

    def credit(self, expected_s: float) -> None:
        """Something is done, or need not be done."""
        self._done_s = min(self._seconds, self._done_s + expected_s)
        self._bar.update(self._task, completed=self._done_s)

    def say(self, text: str) -> None:
        """A line, above the bar if there is one."""
        if not self._quiet:
            self._bar.console.print(text, highlight=False, markup=False)

    def left_text(self) -> str:
        """Such as `about 4 min 10 s`."""
        seconds = round(max(0.0, self._seconds - self._done_s) * self._slowness())
        return (
            f"about {seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"about {seconds} s"
        )

    def _slowness(self) -> float:
        """Time that the measurements of this run took, by what they were expected to take."""
        return max(1.0, self._took_s / self._measured_s) if self._measured_s else 1.0
