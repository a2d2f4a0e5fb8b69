"""Sequences that wait for a place: pre-empted ones first, then new ones, each in order."""

import bisect
from collections.abc import Collection, Iterator

from weir_worker.engine.sequence import Sequence


class WaitingQueue:
    """Order of admission. Whoever is first is admitted first, whatever their size.

    Only a tenant at its own quota is passed over: it holds up nobody else. New sequences keep
    the order in which the scheduler sent them; pre-empted ones come back by age.

    Attributes:
        tokens: tokens of all of them.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._preempted: list[Sequence] = []
        # In order of arrival; a dict, since any of them may be taken out.
        self._new: dict[Sequence, None] = {}

    def __len__(self) -> int:
        return len(self._preempted) + len(self._new)

    def __iter__(self) -> Iterator[Sequence]:
        yield from self._preempted
        yield from self._new

    def add(self, sequence: Sequence) -> None:
        """Append a new sequence."""
        self._new[sequence] = None
        self.tokens += len(sequence.token_ids)

    def add_preempted(self, sequence: Sequence) -> None:
        """Put back a sequence that has run, before all new ones."""
        bisect.insort(self._preempted, sequence, key=lambda waiting: waiting.age)
        self.tokens += len(sequence.token_ids)

    def first(self, passing: Collection[str] = ()) -> Sequence | None:
        """Return whoever is to be admitted next, `passing` over some tenants."""
        for sequence in self:
            if sequence.tenant not in passing:
                return sequence
        return None

    def remove(self, sequence: Sequence) -> None:
        """Take out a sequence, from any place."""
        if sequence in self._new:
            del self._new[sequence]
        else:
            self._preempted.remove(sequence)
        self.tokens -= len(sequence.token_ids)
