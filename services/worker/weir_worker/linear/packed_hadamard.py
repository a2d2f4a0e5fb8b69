"""A Hadamard transform as a layer."""

import torch

from weir_worker.linear.hadamard import Hadamard
from weir_worker.linear.packed import PackedLinear
from weir_worker.linear.plain import PlainLinear
from weir_worker.linear.protocol import Linear


class PackedHadamard:
    """y = x H in fp32 on CPU, by a product for each of the matrix's two factors.

    With 1,536 = 12 x 128 that is a tenth of the whole matrix's work.
    """

    def __init__(self, hadamard: Hadamard) -> None:
        """Pack both factors, normalised."""
        self._factors = (len(hadamard.base), len(hadamard.power))
        self._base, self._power = (_packed(factor) for factor in (hadamard.base, hadamard.power))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, width]; width is a multiple of the transform's order."""
        base, power = self._factors
        y = self._power(x.reshape(-1, power))
        if base == 1:
            return y.view(x.shape)
        y = self._base(y.view(-1, base, power).transpose(1, 2).reshape(-1, base))
        return y.view(-1, power, base).transpose(1, 2).reshape(x.shape)


def _packed(factor: torch.Tensor) -> Linear:
    weight = (factor.T / len(factor) ** 0.5).float().contiguous()
    return PackedLinear(weight) if PackedLinear.supports(weight) else PlainLinear(weight)
