import torch

from weir_worker.linear.hadamard import Hadamard
from weir_worker.linear.int8 import Int8Linear
from weir_worker.linear.int8_weight import Int8Weight
from weir_worker.linear.packed import PackedLinear
from weir_worker.linear.packed_hadamard import PackedHadamard
from weir_worker.linear.plain import PlainLinear
from weir_worker.linear.protocol import Linear

__all__ = [
    "Hadamard",
    "Int8Linear",
    "Int8Weight",
    "Linear",
    "PackedHadamard",
    "PackedLinear",
    "PlainLinear",
    "make_linear",
]


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """The best linear layer for the weight's device and dtype; weight is [out, in]."""
    kind = PackedLinear if PackedLinear.supports(weight) else PlainLinear
    return kind(weight, bias)
