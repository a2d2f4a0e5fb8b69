"""What the step loop asks of a model: one forward pass over rows of several sequences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weir_worker.models.config import ModelConfig

if TYPE_CHECKING:  # an engine without a torch model starts without torch
    import torch


@dataclass(slots=True)
class SequenceSlice:
    """The rows of one sequence in one forward pass.

    Attributes:
        start: absolute position of its first row, which is the number of its tokens whose
            keys and values are in the cache already.
        length: its rows in this pass, at least 1.
        block_table: physical blocks that cover `start + length` tokens, in order of
            position; more are allowed and ignored.
    """

    start: int
    length: int
    block_table: Sequence[int]


@dataclass(frozen=True, slots=True)
class ToldRow:
    """A row of a prompt whose logits are asked for to tell about its next token.

    Attributes:
        index: its place among the rows with logits.
        token_id: the token that follows.
        top: likeliest tokens to tell beside it.
    """

    index: int
    token_id: int
    top: int


@dataclass(slots=True)
class ForwardBatch:
    """One step's input.

    Attributes:
        token_ids: [rows], the tokens of the slices one after the other.
        slices: at most one slice of a sequence; their lengths sum to `rows`.
        logit_rows: rows whose logits are wanted, ascending; may be empty.
        told: which of these are of prompts and draw nothing.
        pooled: (first, length) of rows whose last hidden states are summed up; none of them has
            logits.
    """

    token_ids: Sequence[int]
    slices: Sequence[SequenceSlice]
    logit_rows: Sequence[int]
    told: Sequence[ToldRow] = ()
    pooled: Sequence[tuple[int, int]] = ()


class CausalModel(Protocol):
    """A decoder-only language model over a paged KV cache."""

    @property
    def config(self) -> ModelConfig:
        """Sizes and special tokens."""
        ...

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """Make the cache, `num_blocks` of `block_size` tokens; replaces an earlier one."""
        ...

    def clear_kv(self, blocks: Sequence[int]) -> None:
        """Overwrite blocks with zeros: after a fault they may hold NaN."""
        ...

    def forward(self, batch: ForwardBatch) -> "torch.Tensor":
        """Compute the rows and write their keys and values into the cache.

        Returns:
            Logits, fp32 [len(logit_rows), vocab_size]; valid until the next call, which
            may reuse the memory.
        """
        ...

    def pool(self, batch: ForwardBatch) -> "tuple[torch.Tensor, torch.Tensor]":
        """Compute the rows as `forward` does, and sum up the last hidden states of some.

        Returns:
            Logits, as `forward`; and sums over the pooled rows, fp64 [len(pooled), hidden_size],
            of what enters the projection to logits.
        """
        ...
