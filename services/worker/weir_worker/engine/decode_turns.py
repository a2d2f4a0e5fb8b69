"""Which decodes a step runs when it cannot run all."""

from collections.abc import Iterable

from weir_worker.engine.sequence import Sequence


class DecodeTurns:
    """Picks decodes within bounds of rows and of context; who is left out is first next time."""

    def __init__(self) -> None:
        self._left_out: list[Sequence] = []

    def pick(self, ready: list[Sequence], max_rows: int, max_context: int) -> list[Sequence]:
        """Choose among sequences with one row to compute; at least one, if there is any."""
        if len(ready) <= max_rows and sum([len(s.token_ids) for s in ready]) <= max_context:
            self._left_out = []
            return ready
        chosen: list[Sequence] = []
        left_out: list[Sequence] = []
        rows, context = max_rows, max_context
        for sequence in self._in_turn(ready):
            fits = rows > 0 and _context(sequence) <= context
            if chosen and (left_out or not fits):
                # Once one is left out, so is everyone behind it: no one is passed by.
                left_out.append(sequence)
                continue
            chosen.append(sequence)
            rows -= 1
            context -= _context(sequence)
        self._left_out = left_out
        return chosen

    def _in_turn(self, ready: list[Sequence]) -> Iterable[Sequence]:
        waiting = set(ready)
        first = [sequence for sequence in self._left_out if sequence in waiting]
        before = set(first)
        return [*first, *(sequence for sequence in ready if sequence not in before)]


def _context(sequence: Sequence) -> int:
    return len(sequence.token_ids)
