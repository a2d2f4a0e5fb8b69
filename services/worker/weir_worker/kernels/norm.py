"""Root mean square norm of rows by the compiled kernels."""

import torch

from weir_worker.kernels.library import Kernels


class NativeNorm:
    """x / sqrt(mean(x^2) + eps) * gain of [rows, width].

    Attributes:
        gain: fp32 [width], contiguous.
    """

    def __init__(self, kernels: Kernels, gain: torch.Tensor, eps: float) -> None:
        self.gain = gain.contiguous()
        self._kernels = kernels
        self._eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the rows; returns a new tensor."""
        return self._kernels.rms_norm(x, self.gain, self._eps)
