"""How the parts of a layer are computed: by torch, or by something faster where it can serve."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.nn import functional

from weir_worker.attention import AttentionBackend, AttentionName, PagedKvCache, make_attention
from weir_worker.linear import (
    Hadamard,
    Int8Linear,
    Int8Weight,
    Linear,
    PackedHadamard,
    make_linear,
)
from weir_worker.models.decoder import Decoder
from weir_worker.models.rms_norm import RmsNorm
from weir_worker.models.rope import rotate

if TYPE_CHECKING:  # which are made of these parts
    from weir_worker.models.llama_config import LlamaConfig
    from weir_worker.models.llama_layer import LlamaLayer

Norm = Callable[[torch.Tensor], torch.Tensor]
Gate = Callable[[torch.Tensor], torch.Tensor]


class Parts(Protocol):
    """Makes the parts of one model."""

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """A projection inside a layer; weight is [out, in]."""
        ...

    def head(self, weight: torch.Tensor) -> Linear:
        """The projection to logits."""
        ...

    def int8_weight(self, weight: torch.Tensor) -> Int8Weight:
        """An fp32 weight [out, in], rounded; on CPU, where `int8_method` is not None."""
        ...

    def int8_linear(
        self, weight: Int8Weight, bias: torch.Tensor | None = None, *, fine: bool = False
    ) -> Linear:
        """A projection, also that to logits, by a weight of `int8_weight` and 8-bit activations.

        The bias is fp32; neither `weight` nor a view of it is kept. `fine`: more is lost here
        than elsewhere, so that activations should have more bits if they can be had cheaply.
        """
        ...

    @property
    def int8_method(self) -> str | None:
        """By which rules a model is turned and rounded: one method, one quality. None: it cannot.

        Weights are kept on disk under it: whoever changes how they come to be gives it a new name.
        """
        ...

    @property
    def kernels(self) -> str:
        """Instructions of the compiled kernels, such as `avx512`; `off`: torch computes."""
        ...

    def norm(self, gain: torch.Tensor, width: int, eps: float) -> Norm:
        """Root mean square norm of [rows, width] or of the heads of rows; see `RmsNorm`."""
        ...

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """See `models.rope.rotate`; may change x."""
        ...

    def gate(self, hadamard: Hadamard | None = None) -> Gate:
        """silu(gate) * up of [rows, 2 * width], gate first, then that transform of the product.

        May change what it is given; the transform is for CPU.
        """
        ...

    def attention(self, name: AttentionName, device: torch.device, **site: Any) -> AttentionBackend:
        """The backend of that name; see `make_attention`."""
        ...

    def int8_kv_dtype(self, name: AttentionName) -> torch.dtype:
        """Of the KV cache beside 8-bit layers, whose model is not exact anyway."""
        ...

    def cache(self, **sizes: Any) -> PagedKvCache:
        """A KV cache for that backend; see `PagedKvCache`."""
        ...

    def decoder(self, config: "LlamaConfig", layers: Sequence["LlamaLayer"]) -> Decoder | None:
        """What computes all of these layers at once; None: each is called by itself."""
        ...


class TorchParts:
    """See `Parts`; on every device."""

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """See `Parts.linear`."""
        return make_linear(weight, bias)

    def head(self, weight: torch.Tensor) -> Linear:
        """See `Parts.head`."""
        return make_linear(weight)

    def int8_weight(self, weight: torch.Tensor) -> Int8Weight:
        """See `Parts.int8_weight`."""
        return (Int8Weight.rounded if Int8Linear.saturates() else Int8Weight.full_range)(weight)

    def int8_linear(
        self, weight: Int8Weight, bias: torch.Tensor | None = None, *, fine: bool = False
    ) -> Linear:
        """See `Parts.int8_linear`; there is one kind."""
        return Int8Linear(weight, bias)

    @property
    def int8_method(self) -> str | None:
        """See `Parts.int8_method`."""
        if not Int8Linear.supported():
            return None
        return "torch-1" if Int8Linear.saturates() else "torch-2"

    @property
    def kernels(self) -> str:
        """See `Parts.kernels`."""
        return "off"

    def norm(self, gain: torch.Tensor, width: int, eps: float) -> Norm:
        """See `Parts.norm`."""
        return RmsNorm(gain, width, eps)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """See `Parts.rotate`."""
        return rotate(x, cos, sin)

    def gate(self, hadamard: Hadamard | None = None) -> Gate:
        """See `Parts.gate`."""
        if hadamard is None:
            return _silu_mul
        transform = PackedHadamard(hadamard)
        return lambda gate_up: transform(_silu_mul(gate_up))

    def attention(self, name: AttentionName, device: torch.device, **site: Any) -> AttentionBackend:
        """See `Parts.attention`."""
        return make_attention(name, device, **site)

    def int8_kv_dtype(self, name: AttentionName) -> torch.dtype:
        """See `Parts.int8_kv_dtype`."""
        return torch.float32

    def cache(self, **sizes: Any) -> PagedKvCache:
        """See `Parts.cache`."""
        return PagedKvCache(**sizes)

    def decoder(self, config: "LlamaConfig", layers: Sequence["LlamaLayer"]) -> Decoder | None:
        """See `Parts.decoder`."""
        return None


def _silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=1)
    return functional.silu(gate).mul_(up)
