"""Root mean square norm (Zhang and Sennrich 2019)."""

import torch


class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * gain over the last dimension, computed in fp32.

    Written out because torch's own is a chain of more and slower operations on CPU.
    """

    def __init__(self, gain: torch.Tensor, width: int, eps: float) -> None:
        """Keep the gain, which multiplies [..., width] and may have further dimensions."""
        self._gain = gain
        self._eps = torch.tensor(eps, device=gain.device)
        self._share = 1.0 / width

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise [..., width]; returns a new tensor of the same dtype."""
        wide = x.float()
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        scale = torch.addcmul(self._eps, length, length, value=self._share).rsqrt_()
        return (wide * scale).to(x.dtype).mul_(self._gain)
