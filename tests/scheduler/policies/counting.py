"""Counts what a decision does, without a clock: comparisons of keys and executed lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Tally:
    """What was counted."""

    comparisons: int = 0
    lines: int = 0

    @property
    def total(self) -> int:
        return self.comparisons + self.lines


class CountedInt(int):
    """An integer that notes when it is compared; what is computed from it does so too."""

    tally = Tally()

    def __lt__(self, other: int) -> bool:
        CountedInt.tally.comparisons += 1
        return int.__lt__(self, other)

    def __gt__(self, other: int) -> bool:
        CountedInt.tally.comparisons += 1
        return int.__gt__(self, other)

    def __eq__(self, other: object) -> bool:
        CountedInt.tally.comparisons += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__

    def __add__(self, other: int) -> "CountedInt":
        return CountedInt(int(self) + int(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> "CountedInt":
        return CountedInt(int(self) - int(other))

    def __rsub__(self, other: int) -> "CountedInt":
        return CountedInt(int(other) - int(self))

    def __mul__(self, other: int) -> "CountedInt":
        return CountedInt(int(self) * int(other))

    __rmul__ = __mul__

    def __rfloordiv__(self, other: int) -> "CountedInt":
        return CountedInt(int(other) // int(self))

    def __neg__(self) -> "CountedInt":
        return CountedInt(-int(self))


@contextmanager
def counted() -> Iterator[Tally]:
    """Counts comparisons of `CountedInt` and the lines that the scheduler's code executes."""
    tally = CountedInt.tally = Tally()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if "weir_scheduler" not in frame.f_code.co_filename:
            return None
        if event == "line":
            tally.lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield tally
    finally:
        sys.settrace(before)
