"""A linear layer by torch's own kernel, on any device."""

import torch
from torch.nn import functional

_FEWEST_ROWS = 4


class PlainLinear:
    """y = x W^T + b, W [out, in].

    On CPU fewer than 4 rows are padded to 4: below that BLAS takes another path, whose sums
    differ in the last bits.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias
        self._pads = weight.device.type == "cpu"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]."""
        rows = x.shape[0]
        if not self._pads or rows >= _FEWEST_ROWS:
            return functional.linear(x, self._weight, self._bias)
        padded = functional.pad(x, (0, 0, 0, _FEWEST_ROWS - rows))
        return functional.linear(padded, self._weight, self._bias)[:rows]
