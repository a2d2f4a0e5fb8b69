"""Where the rows of a step stand: in the batch, in their sequences, in the cache."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from weir_worker.models.base import SequenceSlice

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepRows:
    """Geometry of a step's rows in the order in which the model computes them.

    Attributes:
        order: int64 [rows]; computed row i is row `order[i]` of the batch. None for the
            batch's own order.
        positions: int64 [rows], absolute positions in the sequences.
        slots: int64 [rows], places in the flattened cache blocks.
    """

    order: torch.Tensor | None
    positions: torch.Tensor
    slots: torch.Tensor

    @classmethod
    def of(
        cls,
        slices: Sequence[SequenceSlice],
        block_size: int,
        order: Sequence[int] | None = None,
        device: torch.device | None = None,
    ) -> "StepRows":
        """Compute positions and slots of the slices' rows, then put them into `order`."""
        lengths = np.array([piece.length for piece in slices], dtype=np.int64)
        starts = np.array([piece.start for piece in slices], dtype=np.int64)
        firsts = np.cumsum(lengths) - lengths
        positions = np.arange(lengths.sum()) + np.repeat(starts - firsts, lengths)
        slots = _blocks(slices, block_size, positions, lengths) * block_size
        slots += positions % block_size
        if order is not None:
            positions, slots = positions[order], slots[order]
        return cls(
            None if order is None else torch.as_tensor(order, dtype=torch.int64, device=device),
            torch.as_tensor(positions, device=device),
            torch.as_tensor(slots, device=device),
        )

    def arrange(self, values: torch.Tensor) -> torch.Tensor:
        """Bring [rows, ...] of the batch into the computed order."""
        return values if self.order is None else values[self.order]

    def locate(self, batch_rows: torch.Tensor) -> torch.Tensor:
        """The computed rows that hold the given rows of the batch."""
        if self.order is None:
            return batch_rows
        places = torch.empty_like(self.order)
        places[self.order] = torch.arange(len(self.order), device=self.order.device)
        return places[batch_rows]


def _blocks(
    slices: Sequence[SequenceSlice], block_size: int, positions: _Integers, lengths: _Integers
) -> _Integers:
    """The block of each row."""
    blocks: list[int] = []
    # Where in `blocks` a sequence's block 0 would be: those before its rows are left out.
    begins = []
    for piece in slices:
        first = piece.start // block_size
        begins.append(len(blocks) - first)
        last = (piece.start + piece.length - 1) // block_size
        blocks.extend(piece.block_table[first : last + 1])
    places = positions // block_size + np.repeat(np.array(begins, dtype=np.int64), lengths)
    return np.array(blocks, dtype=np.int64)[places]
