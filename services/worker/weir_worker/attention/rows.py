"""Where the rows of a step stand: in the batch, in their sequences, in the cache."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from weir_worker.models.base import SequenceSlice


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
        positions = np.concatenate([_positions(piece) for piece in slices])
        slots = np.concatenate([_slots(piece, block_size) for piece in slices])
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


def _positions(piece: SequenceSlice) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(piece.start, piece.start + piece.length, dtype=np.int64)


def _slots(piece: SequenceSlice, block_size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    positions = _positions(piece)
    first, last = piece.start // block_size, int(positions[-1]) // block_size
    blocks = np.asarray(piece.block_table[first : last + 1], dtype=np.int64)
    slots: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        blocks[positions // block_size - first] * block_size + positions % block_size
    )
    return slots
