"""A look at every block, a part at a time, so that no step waits for it."""

from array import array
from collections.abc import Sequence
from enum import IntEnum
from itertools import islice

from weir_worker.kv.block import Block


class BlockState(IntEnum):
    """What a block is to its pool; the values are those of `weir.worker.v1.KvBlockState`."""

    FREE = 1
    CACHED = 2
    HELD = 3
    PINNED = 4


class KvScan:
    """Blocks in runs that are alike: state, owner, and how many hold it.

    Each part is as it was in the moment in which it was looked at; a block is seen once.

    Args:
        blocks: all of the pool.

    Attributes:
        tenants: owners, by first appearance; runs name them from 1.
        lengths, states, owners, references: of each run.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._seen = 0
        self._numbers: dict[str, int] = {}
        self._last: tuple[int, int, int] | None = None
        self.lengths = array("I")
        self.states = array("B")
        self.owners = array("I")
        self.references = array("I")

    @property
    def tenants(self) -> list[str]:
        """Owners in the order of their numbers."""
        return list(self._numbers)

    def advance(self, most: int) -> bool:
        """Looks at no more than `most` blocks; whether all have been seen."""
        end = min(self._seen + most, len(self._blocks))
        for block in islice(self._blocks, self._seen, end):
            run = self._run_of(block)
            if run == self._last:
                self.lengths[-1] += 1
                continue
            self._last = run
            self.lengths.append(1)
            self.states.append(run[0])
            self.owners.append(run[1])
            self.references.append(run[2])
        self._seen = end
        return end == len(self._blocks)

    def _run_of(self, block: Block) -> tuple[int, int, int]:
        if block.account is None:
            return BlockState.FREE, 0, 0
        owner = self._numbers.setdefault(block.account.tenant, len(self._numbers) + 1)
        if block.ref_count:
            return BlockState.HELD, owner, block.ref_count + block.pins
        if block.pins:
            return BlockState.PINNED, owner, block.pins
        return BlockState.CACHED, owner, 0
