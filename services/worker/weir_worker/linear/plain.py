"""A linear layer by torch's own kernel, on any device."""

import torch
from torch.nn import functional


class PlainLinear:
    """y = x W^T + b, W [out, in]; the last bits of a row may depend on the number of rows."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]."""
        return functional.linear(x, self._weight, self._bias)
