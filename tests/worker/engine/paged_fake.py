"""A stand-in for a model whose next token depends on every token in the paged cache.

It writes tokens into the blocks it is told and reads the whole context back through the block
table, so a block that is shared wrongly, reused too early or never written changes the output
or trips an assertion.
"""

import hashlib
from collections.abc import Callable, Sequence

from weir_worker.kv.cold_kv import ColdKv
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingState

VOCAB = 256
_EMPTY = -1


def next_token(context: Sequence[int]) -> int:
    """Printable ASCII, a function of the whole context."""
    digest = hashlib.sha256(bytes(context)).digest()
    return 97 + digest[0] % 26


def expected_output(prompt: Sequence[int], length: int) -> list[int]:
    context = list(prompt)
    for _ in range(length):
        context.append(next_token(context))
    return context[len(prompt) :]


class PagedFake:
    """See `StepRunner`."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.slots = [_EMPTY] * (num_blocks * block_size)
        self.batches: list[list[tuple[int, int]]] = []
        self.choose: Callable[[Sequence[int]], int] = next_token
        self.fail_rows: Callable[[Sequence[int]], bool] = lambda context: False
        self.fail_batch = False
        self.cleared: list[int] = []
        self.longest_table = 0

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        if self.fail_batch:
            raise RuntimeError("no kernel image is available")
        self.batches.append([(piece.start, piece.length) for piece in batch.slices])
        samples = Samples([])
        row = 0
        wanted = set(batch.logit_rows)
        for piece in batch.slices:
            self.longest_table = max(self.longest_table, len(piece.block_table))
            for position in range(piece.start, piece.start + piece.length):
                block = piece.block_table[position // self.block_size]
                slot = block * self.block_size + position % self.block_size
                self.slots[slot] = batch.token_ids[row]
                if row in wanted:
                    self._sample(piece.block_table, position + 1, samples)
                row += 1
        assert row == len(batch.token_ids)
        assert len(samples.tokens) == len(states) == len(batch.logit_rows)
        return samples

    def clear(self, blocks: Sequence[int]) -> None:
        self.cleared.extend(blocks)
        for block in blocks:
            for slot in range(block * self.block_size, (block + 1) * self.block_size):
                self.slots[slot] = _EMPTY

    def _sample(self, block_table: Sequence[int], end: int, samples: Samples) -> None:
        size = self.block_size
        context = [self.slots[block_table[p // size] * size + p % size] for p in range(end)]
        assert _EMPTY not in context, "a token was read whose KV was never written"
        if self.fail_rows(context):
            samples.failures[len(samples.tokens)] = "the model's logits are not finite"
        samples.tokens.append(self.choose(context))


class FakeHost:
    """See `KvStore`: the tokens of blocks of a paged fake."""

    def __init__(self, fake: PagedFake, num_blocks: int) -> None:
        self._fake = fake
        self._places: list[list[int]] = [[] for _ in range(num_blocks)]
        self._free = list(range(num_blocks))

    @property
    def free_blocks(self) -> int:
        return len(self._free)

    @property
    def total_blocks(self) -> int:
        return len(self._places)

    def store(self, blocks: Sequence[int]) -> ColdKv | None:
        if len(blocks) > len(self._free):
            return None
        cold = ColdKv([self._free.pop() for _ in blocks])
        for slot, block in zip(cold.slots, blocks, strict=True):
            self._places[slot] = self._fake.slots[self._span(block)]
        return cold

    def restore(self, cold: ColdKv, first: int, blocks: Sequence[int]) -> None:
        slots = cold.slots[first : first + len(blocks)]
        for slot, block in zip(slots, blocks, strict=True):
            self._fake.slots[self._span(block)] = self._places[slot]

    def drop(self, cold: ColdKv) -> None:
        for slot in cold.slots:
            self._places[slot] = []
        self._free.extend(cold.slots)
        cold.slots.clear()

    def _span(self, block: int) -> slice:
        size = self._fake.block_size
        return slice(block * size, (block + 1) * size)


class OverlappedFake:
    """See `OverlappingRunner`: a paged fake whose steps are computed when they are waited for.

    Attributes:
        fake: what computes.
        flying: whether a step was started that nobody has waited for.
        refuses: whether no step can be started.
    """

    def __init__(self, fake: PagedFake) -> None:
        self.fake = fake
        self.flying = False
        self.refuses = False

    def start(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> "OverlappedFake.Step":
        assert not self.flying
        if self.refuses:
            raise RuntimeError("an illegal memory access was encountered")
        self.flying = True
        return OverlappedFake.Step(self, batch, states)

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        return self.start(batch, states).wait()

    def clear(self, blocks: Sequence[int]) -> None:
        assert not self.flying, "blocks of a step that runs"
        self.fake.clear(blocks)

    class Step:
        """See `PendingStep`."""

        def __init__(
            self, runner: "OverlappedFake", batch: ForwardBatch, states: Sequence[SamplingState]
        ) -> None:
            self._runner = runner
            self._batch = batch
            self._states = states

        def wait(self) -> Samples:
            self._runner.flying = False
            return self._runner.fake.run(self._batch, self._states)
