"""What the first rank tells the others, over a socket each; they answer with `Reply`."""

import msgspec

from weir_worker.models.base import ForwardBatch, SequenceSlice


class Load(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load a part of the model. Answered when it is loaded."""

    folder: str
    rank: int
    size: int
    device: str
    dtype: str
    attention: str
    block_size: int
    threads: int


class Join(msgspec.Struct, frozen=True, tag=True):
    """Join the process group whose store listens on this port of the machine."""

    port: int
    timeout_s: float


class Allocate(msgspec.Struct, frozen=True, tag=True):
    """Make the KV cache. Answered."""

    num_blocks: int
    block_size: int


class Clear(msgspec.Struct, frozen=True, tag=True):
    """Overwrite blocks with zeros."""

    blocks: list[int]


class Forward(msgspec.Struct, frozen=True, tag=True):
    """Compute a step: tokens, (start, length, blocks) of each slice, rows with logits."""

    token_ids: list[int]
    slices: list[tuple[int, int, list[int]]]
    logit_rows: list[int]

    @classmethod
    def of(cls, batch: ForwardBatch) -> "Forward":
        """The message of a batch."""
        slices = [(piece.start, piece.length, list(piece.block_table)) for piece in batch.slices]
        return cls(list(batch.token_ids), slices, list(batch.logit_rows))

    def batch(self) -> ForwardBatch:
        """The batch of a message."""
        slices = [SequenceSlice(*piece) for piece in self.slices]
        return ForwardBatch(self.token_ids, slices, self.logit_rows)


class Reply(msgspec.Struct, frozen=True):
    """What came of a message; empty: it was done."""

    problem: str = ""


Message = Load | Join | Allocate | Clear | Forward
