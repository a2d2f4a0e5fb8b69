"""Which blocks a step's sequences lie in, as the kernels for CUDA read it."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch

from weir_worker.models.base import ForwardBatch


@dataclass(frozen=True, slots=True)
class PagedTables:
    """Index tensors of one step, int32, on the cache's device.

    Attributes:
        first_rows: [sequences + 1], running sums of rows.
        first_keys: [sequences + 1], running sums of keys.
        lengths: [sequences], keys of each, those of its rows included.
        blocks: [sequences, most blocks], 0 where unused.
        max_rows, max_keys: the most of any sequence.
    """

    first_rows: torch.Tensor
    first_keys: torch.Tensor
    lengths: torch.Tensor
    blocks: torch.Tensor
    max_rows: int
    max_keys: int

    @classmethod
    def of(cls, batch: ForwardBatch, block_size: int, device: torch.device) -> "PagedTables":
        """Collect the tables of a batch; one copy to the device."""
        rows = [piece.length for piece in batch.slices]
        keys = [piece.start + piece.length for piece in batch.slices]
        counts = [-(-end // block_size) for end in keys]
        blocks = np.zeros((len(keys), max(counts)), dtype=np.int32)
        for index, (piece, count) in enumerate(zip(batch.slices, counts, strict=True)):
            blocks[index, :count] = piece.block_table[:count]
        sums = [[0, *accumulate(rows)], [0, *accumulate(keys)], keys]
        parts = [*(np.asarray(part, np.int32) for part in sums), blocks.ravel()]
        packed = torch.from_numpy(np.concatenate(parts)).to(device)
        first_rows, first_keys, lengths, table = torch.split(packed, [len(p) for p in parts])
        return cls(first_rows, first_keys, lengths, table.view(blocks.shape), max(rows), max(keys))
