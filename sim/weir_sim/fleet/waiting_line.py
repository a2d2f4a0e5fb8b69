"""Sequences that wait for a place in an engine: pre-empted ones first, each in order."""

import bisect
from collections import deque
from collections.abc import Iterator

from weir_sim.fleet.sequence import SimSequence


class WaitingLine:
    """Order of admission; whoever is first is admitted first, whatever their size."""

    def __init__(self) -> None:
        self._preempted: list[SimSequence] = []
        self._new: deque[SimSequence] = deque()

    def __len__(self) -> int:
        return len(self._preempted) + len(self._new)

    def __iter__(self) -> Iterator[SimSequence]:
        yield from self._preempted
        yield from self._new

    def add(self, sequence: SimSequence) -> None:
        """Appends a new sequence."""
        self._new.append(sequence)

    def add_preempted(self, sequence: SimSequence) -> None:
        """Puts back a sequence that has run, by its age and before all new ones."""
        bisect.insort(self._preempted, sequence, key=lambda waiting: waiting.age)

    def first(self) -> SimSequence:
        """Who is admitted next. Raises IndexError when nobody waits."""
        return self._preempted[0] if self._preempted else self._new[0]

    def pop(self) -> SimSequence:
        """Takes the first out. Raises IndexError when nobody waits."""
        return self._preempted.pop(0) if self._preempted else self._new.popleft()

    def remove(self, sequence: SimSequence) -> bool:
        """Takes a sequence out, from any place; whether it was there."""
        for line in (self._preempted, self._new):
            if sequence in line:
                line.remove(sequence)
                return True
        return False
