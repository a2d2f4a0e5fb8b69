"""The input of decode steps in memory that stays where it is, as a CUDA graph needs it."""

import numpy as np
import torch

from weir_worker.attention.rows import StepRows
from weir_worker.attention.tables import PagedTables
from weir_worker.models.base import ForwardBatch


class DecodeInputs:
    """One row of each of up to `rows` sequences: filled on the host, copied in one go.

    Rows beyond the batch compute a made-up token over the spare block, which no sequence has.
    The host's copy is overwritten by the next `fill`: whoever calls it must have waited for
    the step before.
    """

    def __init__(
        self, rows: int, most_blocks: int, block_size: int, spare_block: int, device: torch.device
    ) -> None:
        """Make it, with every row on the spare block."""
        self._block_size = block_size
        self._spare = spare_block
        pinned = device.type == "cuda"
        self._host_long = torch.zeros(3, rows, dtype=torch.int64, pin_memory=pinned)
        self._host_table = torch.zeros(rows, most_blocks, dtype=torch.int32, pin_memory=pinned)
        self._long, self._table = self._host_long.numpy(), self._host_table.numpy()
        self._pad(0, rows)
        self._device_long = self._host_long.to(device)
        self._device_table = self._host_table.to(device)
        self._lengths = torch.ones(rows, dtype=torch.int32, device=device)
        self._first_rows = torch.arange(rows + 1, dtype=torch.int32, device=device)
        self.wanted = torch.arange(rows, device=device)

    @property
    def rows(self) -> int:
        """The most rows."""
        return len(self.wanted)

    def fill(self, batch: ForwardBatch, rows: int) -> None:
        """Take over a batch of single rows, filled up to `rows`.

        The copy to the device is queued, not waited for.
        """
        count = len(batch.slices)
        starts = np.fromiter((piece.start for piece in batch.slices), np.int64, count)
        self._long[0, :count] = batch.token_ids
        self._long[1, :count] = starts
        for row, piece in enumerate(batch.slices):
            blocks = piece.start // self._block_size + 1
            self._table[row, :blocks] = piece.block_table[:blocks]
        last = self._table[np.arange(count), starts // self._block_size].astype(np.int64)
        self._long[2, :count] = last * self._block_size + starts % self._block_size
        self._pad(count, rows)
        self._device_long.copy_(self._host_long, non_blocking=True)
        self._device_table[:rows].copy_(self._host_table[:rows], non_blocking=True)
        torch.add(self._device_long[1], 1, out=self._lengths)

    def tokens(self, rows: int) -> torch.Tensor:
        """Of the first rows, int64 [rows]."""
        return self._device_long[0, :rows]

    def step_rows(self, rows: int) -> StepRows:
        """Positions and slots of the first rows."""
        return StepRows(None, self._device_long[1, :rows], self._device_long[2, :rows])

    def tables(self, rows: int) -> PagedTables:
        """Lengths and blocks of the first rows; every sum and maximum is that of any batch."""
        blocks = self._device_table[:rows]
        return PagedTables(
            first_rows=self._first_rows[: rows + 1],
            first_keys=self._first_rows[: rows + 1],
            lengths=self._lengths[:rows],
            blocks=blocks,
            max_rows=1,
            max_keys=blocks.shape[1] * self._block_size,
        )

    def _pad(self, count: int, rows: int) -> None:
        self._long[:2, count:rows] = 0
        self._long[2, count:rows] = self._spare * self._block_size
        self._table[count:rows, 0] = self._spare
