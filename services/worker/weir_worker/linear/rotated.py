"""A linear layer behind a rotation of its input."""

import torch

from weir_worker.linear.protocol import Linear


class RotatedLinear:
    """y = f(x R) with R block diagonal, of one block."""

    def __init__(self, block: Linear, order: int, linear: Linear) -> None:
        """Keep the block, which maps [rows, order], and what comes behind it."""
        self._block = block
        self._order = order
        self._linear = linear

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]; `in` is a multiple of the order."""
        return self._linear(self._block(x.reshape(-1, self._order)).view(x.shape))
