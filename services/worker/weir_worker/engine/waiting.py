"""Sequences that wait for a place: pre-empted ones first, then new ones, each in order."""

import bisect
from collections import deque
from collections.abc import Iterator

from weir_worker.engine.sequence import Sequence


class WaitingQueue:
    """Order of admission. There is no bypass: whoever is first is admitted first.

    New sequences keep the order in which the scheduler sent them; pre-empted ones come
    back by age.

    Attributes:
        tokens: tokens of all of them.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._preempted: list[Sequence] = []
        self._new: deque[Sequence] = deque()

    def __len__(self) -> int:
        return len(self._preempted) + len(self._new)

    def __iter__(self) -> Iterator[Sequence]:
        yield from self._preempted
        yield from self._new

    def add(self, sequence: Sequence) -> None:
        """Append a new sequence."""
        self._new.append(sequence)
        self.tokens += len(sequence.token_ids)

    def add_preempted(self, sequence: Sequence) -> None:
        """Put back a sequence that has run, before all new ones."""
        bisect.insort(self._preempted, sequence, key=lambda waiting: waiting.age)
        self.tokens += len(sequence.token_ids)

    def first(self) -> Sequence | None:
        """Return whoever is to be admitted next."""
        if self._preempted:
            return self._preempted[0]
        return self._new[0] if self._new else None

    def remove(self, sequence: Sequence) -> None:
        """Take out a sequence, from any place."""
        if sequence in self._preempted:
            self._preempted.remove(sequence)
        else:
            self._new.remove(sequence)
        self.tokens -= len(sequence.token_ids)
