"""The sequences of an engine that produce a token in every step."""

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from weir_sim.core.service_meter import ServiceMeter
from weir_sim.cost.step_timer import StepTimer
from weir_sim.fleet.kv_cache import KvCache
from weir_sim.fleet.sequence import SimSequence

_LONGEST_FLIGHT = 128


class Decodes:
    """Advances a batch of decodes by steps, as one.

    Args:
        kv: memory that they grow into.
        timer: of their steps.
        meter: told of what they produce.

    Attributes:
        tokens: produced by steps of these decodes.
    """

    def __init__(self, kv: KvCache, timer: StepTimer, meter: ServiceMeter) -> None:
        self.tokens = 0
        self._kv = kv
        self._timer = timer
        self._meter = meter
        self._sequences: list[SimSequence] = []
        self._ends: list[int] = []
        """End of every step in which they advanced; all of them advance in each."""

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[SimSequence]:
        return iter(self._sequences)

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._sequences

    def add(self, sequence: SimSequence) -> None:
        """It takes part from the next step on."""
        sequence.decode_from = len(self._ends)
        self._sequences.append(sequence)

    def remove(self, sequence: SimSequence) -> None:
        """Takes one out, with the times between the tokens that it got here."""
        self._sequences.remove(sequence)
        ends = self._ends[sequence.decode_from :]
        if ends:
            moments = np.array([sequence.last_token_us, *ends], dtype=np.int64)
            sequence.gaps.append(np.diff(moments))
            sequence.last_token_us = ends[-1]

    def clear(self) -> None:
        """Forgets everyone."""
        self._sequences.clear()

    def complete(self) -> list[SimSequence]:
        """Those that have all their tokens."""
        return [sequence for sequence in self._sequences if sequence.total >= sequence.target]

    def context(self) -> int:
        """Positions that their next step reads."""
        return sum([sequence.total for sequence in self._sequences])

    def advance(self, ends: list[int]) -> None:
        """Takes over steps that ended at these moments; everyone has a token more for each."""
        steps, size = len(ends), self._kv.block_size
        self._ends.extend(ends)
        for sequence in self._sequences:
            sequence.total += steps
            sequence.computed += steps
            if sequence.computed > sequence.blocks * size:
                self._kv.cover(sequence, sequence.computed)
            self._meter.output(sequence.tenant, steps)
        self.tokens += steps * len(self._sequences)

    def growth(self, steps: int) -> int:
        """Blocks that so many steps take."""
        size = self._kv.block_size
        more = steps + size - 1
        growth = 0
        for sequence in self._sequences:
            lacking = (sequence.computed + more) // size - sequence.blocks
            if lacking > 0:
                growth += lacking
        return growth

    def take_next_blocks(self) -> None:
        """Gives everyone the block of its next token; there must be enough."""
        size = self._kv.block_size
        for sequence in self._sequences:
            if sequence.computed >= sequence.blocks * size:
                self._kv.cover(sequence, sequence.computed + 1)

    def flight_length(self) -> int:
        """Steps until something ends, or memory does."""
        most = min([sequence.target - sequence.total for sequence in self._sequences])
        most = min(most, _LONGEST_FLIGHT)
        available = self._kv.available
        if len(self._sequences) * (most // self._kv.block_size + 1) <= available:
            return most
        low, high = 1, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.growth(middle) <= available:
                low = middle
            else:
                high = middle - 1
        return low

    def ends_from(self, begin_us: int, steps: int) -> list[int]:
        """End of each of the next steps, if nothing comes between."""
        lengths = self._timer.decodes_us(len(self._sequences), self.context(), steps)
        lengths[0] += begin_us
        return list(accumulate(lengths))
