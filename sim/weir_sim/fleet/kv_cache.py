"""Paged KV memory of a simulated worker, with a prefix cache."""

from collections import Counter
from collections.abc import Iterable, Sequence

from weir_sim.fleet.sequence import SimSequence


class KvCache:
    """Blocks by number alone: each is free, cached (findable, held by nobody) or held.

    A prefix is found by units: the blocks that one hash of the request stands for. A unit that
    several sequences share is held once. Idle units go least recently used first, and the end
    of a chain before its beginning. A method does all of what it says or nothing.

    Args:
        total: blocks, 1 or more.
        block_size: tokens of a block.
        granularity: tokens of a unit, a multiple of `block_size`.
        capacity: idle blocks kept at most; None for all that are free, 0 for no cache.

    Raises:
        ValueError: the granularity is no multiple of the block size.

    Attributes:
        added: units that became findable since the last report.
        removed: units that no longer are.
    """

    def __init__(
        self, total: int, block_size: int, granularity: int, capacity: int | None = None
    ) -> None:
        if granularity % block_size:
            raise ValueError(
                f"prefix_granularity is {granularity} tokens: use a multiple of block_size "
                f"({block_size})"
            )
        self.total = total
        self.block_size = block_size
        self.unit_tokens = granularity
        self.unit_blocks = granularity // block_size
        self.added: list[bytes] = []
        self.removed: list[bytes] = []
        self.peak_held = 0
        self._most_idle = total if capacity is None else capacity // self.unit_blocks
        self._private = 0
        self._holders: dict[bytes, int] = {}
        self._idle: dict[bytes, None] = {}

    @property
    def free(self) -> int:
        """Blocks without content."""
        return self.total - self._private - len(self._holders) * self.unit_blocks

    @property
    def cached(self) -> int:
        """Findable blocks that nobody holds."""
        return len(self._idle) * self.unit_blocks

    @property
    def held(self) -> int:
        """Blocks that sequences hold, each once."""
        return self._private + (len(self._holders) - len(self._idle)) * self.unit_blocks

    @property
    def available(self) -> int:
        """Blocks that a sequence can have now."""
        return self.free + self.cached

    def blocks_for(self, tokens: int) -> int:
        """Blocks that cover so many tokens."""
        return -(-tokens // self.block_size)

    def admit(self, sequence: SimSequence, keep: int) -> int | None:
        """Takes blocks for all tokens of a sequence, those that it can find first.

        Args:
            sequence: holds nothing yet.
            keep: blocks that must remain available.

        Returns:
            Tokens found in the cache, at most all but one; None, with nothing changed, when
            memory is lacking.
        """
        hits = self._findable(sequence.request.prefix_hashes, sequence.total - 1)
        idle = sum(digest in self._idle for digest in hits)
        fresh = self.blocks_for(sequence.total) - len(hits) * self.unit_blocks
        if self.available - idle * self.unit_blocks < fresh + keep:
            return None
        for digest in hits:
            self._idle.pop(digest, None)
            self._holders[digest] += 1
        sequence.shared = list(hits)
        sequence.blocks = len(hits) * self.unit_blocks
        self._take(sequence, fresh)
        return len(hits) * self.unit_tokens

    def cover(self, sequence: SimSequence, tokens: int) -> None:
        """Grows a sequence to hold so many tokens. Raises ValueError when memory is lacking."""
        missing = self.blocks_for(tokens) - sequence.blocks
        if missing > 0:
            if missing > self.available:
                raise ValueError(f"{missing} KV blocks are needed, {self.available} available")
            self._take(sequence, missing)

    def publish(self, sequence: SimSequence) -> None:
        """Lets others find the full units of the prompt whose KV is written."""
        hashes = sequence.request.prefix_hashes
        if not hashes or not self._most_idle:
            return
        full = min(len(hashes), min(sequence.computed, sequence.prompt) // self.unit_tokens)
        for digest in hashes[len(sequence.shared) : full]:
            if digest in self._holders:
                # Another computed the same meanwhile; this copy stays private.
                break
            self._holders[digest] = 1
            self._private -= self.unit_blocks
            sequence.shared.append(digest)
            self.added.append(digest)

    def release(self, sequence: SimSequence) -> None:
        """Gives back all that a sequence holds; twice is once."""
        self._private -= sequence.blocks - len(sequence.shared) * self.unit_blocks
        for digest in reversed(sequence.shared):
            self._holders[digest] -= 1
            if not self._holders[digest]:
                self._idle[digest] = None
        sequence.blocks = 0
        sequence.shared = []
        while len(self._idle) > self._most_idle:
            self._evict()

    def clear(self) -> None:
        """Loses everything; whoever held blocks holds none."""
        self._private = 0
        self._holders.clear()
        self._idle.clear()
        self.added.clear()
        self.removed.clear()

    def take_changes(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Units that became findable, and that no longer are, since the last call."""
        changes = tuple(self.added), tuple(self.removed)
        self.added.clear()
        self.removed.clear()
        return changes

    def tell_all(self) -> None:
        """Everything that can be found counts as new: whoever was told before is gone."""
        self.added = list(self._holders)
        self.removed.clear()

    @property
    def changed(self) -> bool:
        """Whether anything became findable, or no longer is, since the last report."""
        return bool(self.added or self.removed)

    def check(self, sequences: Iterable[SimSequence]) -> None:
        """Recounts all blocks. Raises ValueError when the books are wrong.

        Args:
            sequences: everyone who may hold blocks.
        """
        private, holders = 0, Counter[bytes]()
        for sequence in sequences:
            private += sequence.blocks - len(sequence.shared) * self.unit_blocks
            holders.update(sequence.shared)
        kept = {digest: count for digest, count in self._holders.items() if count}
        idle = {digest for digest, count in self._holders.items() if not count}
        if private != self._private or holders != kept or idle != self._idle.keys():
            raise ValueError(
                f"KV books are wrong: {private} private blocks counted, {self._private} booked; "
                f"{len(holders)} shared units counted, {len(kept)} booked"
            )
        if self.free < 0 or self.free + self.cached + self.held != self.total:
            raise ValueError(f"free {self.free}, cached {self.cached}, held {self.held} blocks")

    def _findable(self, hashes: Sequence[bytes], most_tokens: int) -> list[bytes]:
        hits: list[bytes] = []
        for digest in hashes[: most_tokens // self.unit_tokens]:
            if digest not in self._holders:
                break
            hits.append(digest)
        return hits

    def _take(self, sequence: SimSequence, blocks: int) -> None:
        sequence.blocks += blocks
        self._private += blocks
        while self.free < 0:
            self._evict()
        held = self.held
        if held > self.peak_held:
            self.peak_held = held

    def _evict(self) -> None:
        digest = next(iter(self._idle))
        del self._idle[digest]
        del self._holders[digest]
        self.removed.append(digest)
