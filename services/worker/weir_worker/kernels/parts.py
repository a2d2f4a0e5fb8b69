"""The parts of a model by the compiled kernels, where they are faster or more exact."""

from collections.abc import Sequence
from typing import Any

import torch

from weir_worker.attention import AttentionBackend, AttentionName, PagedKvCache
from weir_worker.attention.native import NativeAttention, NativeKvCache
from weir_worker.kernels.decoder import NativeDecoder
from weir_worker.kernels.gate import NativeGate
from weir_worker.kernels.library import STEP, Kernels
from weir_worker.kernels.linear import FASTEST, NativeInt8Linear, NativeLinear
from weir_worker.kernels.norm import NativeNorm
from weir_worker.linear import Hadamard, Int8Weight, Linear
from weir_worker.models.config import ModelConfig
from weir_worker.models.decoder import Decoder
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.llama_layer import LlamaLayer
from weir_worker.models.parts import Gate, Norm, TorchParts


class NativeParts(TorchParts):
    """See `Parts`; on CPU in fp32, for models whose sizes the kernels know."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._native_attention = False

    @staticmethod
    def refusal(config: ModelConfig, hidden_size: int, intermediate_size: int) -> str | None:
        """Why a model cannot be computed so; None if it can."""
        sizes = {
            "hidden_size": hidden_size,
            "intermediate_size": intermediate_size,
            "head_dim": config.head_dim,
        }
        for name, size in sizes.items():
            if size % STEP:
                return f"{name} is {size}, not a multiple of {STEP}"
        return None

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """See `Parts.linear`."""
        # With 256 bits oneDNN's kernels are as independent of the rows, and faster.
        if self._kernels.level == "avx2":
            return super().linear(weight, bias)
        return NativeLinear(self._kernels, weight, bias)

    def head(self, weight: torch.Tensor) -> Linear:
        """See `Parts.head`."""
        if self._kernels.level == "avx2":
            return super().head(weight)
        return NativeLinear(self._kernels, weight)

    def int8_weight(self, weight: torch.Tensor) -> Int8Weight:
        """See `Parts.int8_weight`."""
        return Int8Weight.full_range(weight)

    def int8_linear(
        self, weight: Int8Weight, bias: torch.Tensor | None = None, *, fine: bool = False
    ) -> Linear:
        """See `Parts.int8_linear`."""
        kind = FASTEST[self._kernels.level]
        if kind is NativeInt8Linear:
            return NativeInt8Linear(self._kernels, weight, bias, fine=fine)
        return kind(self._kernels, weight, bias)

    @property
    def int8_method(self) -> str | None:
        """See `Parts.int8_method`."""
        return "native-4" if self._kernels.level == "avx2" else "native-3"

    @property
    def kernels(self) -> str:
        """See `Parts.kernels`."""
        return self._kernels.level

    def norm(self, gain: torch.Tensor, width: int, eps: float) -> Norm:
        """See `Parts.norm`; those of heads are torch's."""
        if gain.dim() > 1:
            return super().norm(gain, width, eps)
        return NativeNorm(self._kernels, gain, eps)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """See `Parts.rotate`."""
        self._kernels.rotate(x, cos, sin)
        return x

    def gate(self, hadamard: Hadamard | None = None) -> Gate:
        """See `Parts.gate`."""
        return NativeGate(self._kernels, hadamard)

    def attention(self, name: AttentionName, device: torch.device, **site: Any) -> AttentionBackend:
        """See `Parts.attention`; `auto` is `native`."""
        self._native_attention = name in ("auto", "native")
        if self._native_attention:
            return NativeAttention(self._kernels)
        return super().attention(name, device, **site)

    def decoder(self, config: LlamaConfig, layers: Sequence[LlamaLayer]) -> Decoder | None:
        """See `Parts.decoder`."""
        if not self._native_attention:
            return None
        return NativeDecoder.of(self._kernels, config, layers)

    def int8_kv_dtype(self, name: AttentionName) -> torch.dtype:
        """See `Parts.int8_kv_dtype`."""
        return torch.float16 if name in ("auto", "native") else torch.float32

    def cache(self, **sizes: Any) -> PagedKvCache:
        """See `Parts.cache`."""
        if not self._native_attention:
            return super().cache(**sizes)
        del sizes["device"]
        return NativeKvCache(self._kernels, **sizes)
