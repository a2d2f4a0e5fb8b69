"""Attention by gathering each sequence's blocks: slow, plain, on every device; the oracle."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.models.base import ForwardBatch, SequenceSlice


class GatherAttention:
    """One scaled dot product per sequence over a contiguous copy of its keys and values."""

    name = "gather_sdpa"

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "GatherPlan":
        """Keep the slices; there is nothing to prepare."""
        device = cache.keys[0].device
        rows = StepRows.of(batch.slices, cache.block_size, device=device)
        return GatherPlan(rows, batch.slices)


@dataclass(slots=True)
class GatherPlan:
    """See `AttentionPlan`."""

    rows: StepRows
    slices: Sequence[SequenceSlice]

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """See `AttentionPlan.attend`."""
        pieces = torch.split(q, [piece.length for piece in self.slices])
        outputs = [
            _attend(rows, keys, values, piece, window)
            for rows, piece in zip(pieces, self.slices, strict=True)
        ]
        return torch.cat(outputs)


def _attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    piece: SequenceSlice,
    window: int | None,
) -> torch.Tensor:
    block_size, length = keys.shape[1], piece.start + piece.length
    table = torch.as_tensor(piece.block_table[: -(-length // block_size)], device=q.device)
    k = keys[table].flatten(0, 1)[:length].transpose(0, 1)
    v = values[table].flatten(0, 1)[:length].transpose(0, 1)
    positions = torch.arange(length, device=q.device)
    own = positions[piece.start :, None]
    seen = positions <= own
    if window is not None:
        seen &= positions > own - window
    output = functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k[None], v[None], attn_mask=seen, enable_gqa=True
    )
    return output[0].transpose(0, 1).flatten(1)
