"""Models of random weights, made where they are used: nothing is read or fetched."""

from dataclasses import dataclass

import torch

from weir_worker.models.family import FAMILY
from weir_worker.models.layer_kind import LayerKind
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.rope import RopeParameters
from weir_worker.models.weights import Weights


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a Llama."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int = 8192

    def config(self, kv_dtype_bytes: int) -> LlamaConfig:
        return LlamaConfig(
            name="random",
            vocab_size=self.vocabulary,
            max_context=self.context,
            num_layers=self.layers,
            num_heads=self.heads,
            num_kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            kv_dtype_bytes=kv_dtype_bytes,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            rms_norm_eps=1e-5,
            member=FAMILY["llama"],
            layers=(LayerKind(None, RopeParameters(theta=500_000.0)),) * self.layers,
            query_scale=1.0,
            tie_word_embeddings=False,
        )

    @property
    def parameters(self) -> int:
        """Of the layers and the output projection: what a step multiplies with."""
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        return (
            self.layers * (attention + 3 * self.hidden * self.intermediate)
            + self.hidden * self.vocabulary
        )


# Llama 3.1 8B, the same with few layers, and one for machines without a GPU.
LLAMA_8B = ModelShape(4096, 14_336, 32, 32, 8, 128, 128_256)
SHALLOW = ModelShape(4096, 14_336, 4, 32, 8, 128, 32_000)
TINY = ModelShape(64, 128, 2, 4, 2, 16, 320, context=1024)


class RandomWeights(Weights):
    """Needs no folder: seeded, equal for every dtype but for its rounding."""

    def __init__(self, config: LlamaConfig, dtype: torch.dtype, device: torch.device) -> None:
        self._layout = config.layout
        self._dtype = dtype
        self._device = device

    def __contains__(self, name: str) -> bool:
        return not name.endswith("bias")

    def take(self, name: str) -> torch.Tensor:
        shape = self._layout.shape(name)
        assert shape is not None, name
        if len(shape) == 1:
            return torch.ones(shape, dtype=self._dtype, device=self._device)
        seed = sum(ord(letter) * 31**place for place, letter in enumerate(name)) % (1 << 31)
        generator = torch.Generator(self._device).manual_seed(seed)
        values = torch.empty(shape, dtype=torch.bfloat16, device=self._device)
        return values.normal_(0, shape[-1] ** -0.5, generator=generator).to(self._dtype)
