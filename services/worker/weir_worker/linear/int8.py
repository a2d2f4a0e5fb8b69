"""A linear layer of 8-bit weights and activations whose rows are independent of each other."""

import warnings
from functools import cache

import torch

from weir_worker.linear.int8_weight import Int8Weight

# Of the activations, the same for all rows: [-1, 1] becomes 1..255.
_SCALE, _ZERO = 1 / 127, 128
_TINY = 1e-30
_ENGINE = "fbgemm"


class Int8Linear:
    """y = x W^T + b on CPU, with a scale for each output of W and one for each row of x.

    Each row is divided by its own largest magnitude before it is rounded, and its result
    multiplied by it again: torch's dynamic quantisation has one scale for the whole batch, so
    that a row there depends on its batch-mates. Sums are of integers and exact, hence the same on
    every processor, if the weight keeps to the bounds of `Int8Weight.rounded` where the
    processor's kernels saturate.
    """

    def __init__(self, weight: Int8Weight, bias: torch.Tensor | None = None) -> None:
        """Pack the weight; nothing of it is kept. The bias is fp32 [out]."""
        self._packed = _pack(weight)
        self._bias = bias
        self._apply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map fp32 [rows, in] to [rows, out]; a row that holds NaN or infinity gives NaN."""
        largest = x.abs().amax(1, keepdim=True).clamp_min_(_TINY)
        y: torch.Tensor = self._apply(x / largest, _SCALE, _ZERO, self._packed)
        y.mul_(largest)
        return y if self._bias is None else y.add_(self._bias)

    @staticmethod
    def supported() -> bool:
        """Whether this build of torch has the kernels: those of FBGEMM, on x86 alone."""
        return _ENGINE in torch.backends.quantized.supported_engines and hasattr(
            torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32"
        )

    @staticmethod
    @cache
    def saturates() -> bool:
        """Whether the kernels of this processor lose what two neighbours exceed 16 bits by.

        Those with VNNI do not. Asked of the kernels themselves, which choose by more than flags.
        """
        inputs = 1024
        levels = torch.full((2, inputs), 127, dtype=torch.int8) * torch.tensor([[1], [-1]])
        linear = Int8Linear(Int8Weight(levels.to(torch.int8), torch.full((2,), 1 / 127)))
        largest = torch.ones(3, inputs)
        expected = torch.tensor([inputs, -inputs]).expand(3, 2).float()
        return not torch.allclose(linear(largest), expected, rtol=1e-5)


def _pack(weight: Int8Weight) -> torch.Tensor:
    zeros = torch.zeros(len(weight.scales), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that such tensors will be gone some day
        quantised = torch._make_per_channel_quantized_tensor(
            weight.levels, weight.scales.double(), zeros, 0
        )
    # Packed for the engine that is set in this process; another's is of no use to our operator.
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = _ENGINE
    try:
        packed: torch.Tensor = torch.ops.quantized.linear_prepack(quantised, None)
    finally:
        torch.backends.quantized.engine = before
    return packed
