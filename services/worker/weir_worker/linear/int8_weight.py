"""A weight rounded to 8 bits."""

from dataclasses import dataclass

import torch
from torch.nn import functional

_LEVELS = 127
# AVX2 has no 8-bit multiply-add into 32 bits: it adds two neighbouring products in 16 bits and
# saturates. 255 * 128 still fits, so two neighbours of one sign may sum up to so much.
_PAIR = 128
_TINY = 1e-30


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """levels * scales, an approximation of a weight [out, in].

    Attributes:
        levels: int8 [out, in], from -127 to 127. If `rounded`, those of neighbours 2j and 2j + 1
            that have one sign sum up to 128 at most, so that no kernel saturates, whatever bytes
            it multiplies by.
        scales: fp32 [out].
    """

    levels: torch.Tensor
    scales: torch.Tensor

    @classmethod
    def rounded(cls, weight: torch.Tensor) -> "Int8Weight":
        """Round an fp32 weight by the finest scale of each output that keeps to the bounds."""
        scales = torch.maximum(weight.abs().amax(1) / _LEVELS, _largest_pair(weight) / (_PAIR - 1))
        return cls._scaled(weight, scales)

    @classmethod
    def full_range(cls, weight: torch.Tensor) -> "Int8Weight":
        """Round it by each output's largest magnitude: finer, and not bound in its pairs."""
        return cls._scaled(weight, weight.abs().amax(1) / _LEVELS)

    @classmethod
    def _scaled(cls, weight: torch.Tensor, scales: torch.Tensor) -> "Int8Weight":
        scales.clamp_min_(_TINY)
        return cls((weight / scales[:, None]).round_().to(torch.int8), scales)


def _largest_pair(weight: torch.Tensor) -> torch.Tensor:
    """The largest sum of two neighbours of one sign, fp32 [out]; rounding adds 1 at most."""
    pairs = functional.pad(weight, (0, weight.shape[1] % 2)).view(len(weight), -1, 2)
    positive = pairs.clamp_min(0).sum(2).amax(1)
    return torch.maximum(positive, -pairs.clamp_max(0).sum(2).amin(1))
