"""Weights of a turned model, for linear layers of 8 bits."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from weir_worker.linear import Int8Weight, Linear
from weir_worker.models.int8_cache import Int8Cache
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.parts import Gate, Parts
from weir_worker.models.rotation import Rotation
from weir_worker.models.weights import Weights


class RotatedWeights(Weights):
    """See `Weights` and `Rotation`; all linear layers are of 8 bits, the rest is fp32."""

    int8 = True

    def __init__(self, folder: Path, config: LlamaConfig, cache: Int8Cache) -> None:
        """Open the files. Raises ModelFileError, as `Weights` does."""
        super().__init__(folder, config.layout, torch.float32, torch.device("cpu"))
        self._rotation = Rotation(config)
        self._cache = cache

    def take(self, name: str) -> torch.Tensor:
        """See `Weights.take`."""
        return self._rotation.turned(name, super().take)

    def embedding(self) -> torch.Tensor:
        """See `Weights.embedding`."""
        name = "model.embed_tokens.weight"
        return self._cache.get(name, lambda: {name: self.take(name)})[name].clone()

    def linear(self, parts: Parts, names: list[str]) -> Linear:
        """See `Weights.linear`."""
        weight = self._rounded(parts, names[0], lambda: self.weight(names))
        # What is lost of queries and keys goes through the softmax of every position.
        fine = ".q_proj" in names[0]
        return parts.int8_linear(weight, self.bias(names), fine=fine)

    def gate(self, parts: Parts) -> Gate:
        """See `Weights.gate`."""
        transform = self._rotation.mlp
        return parts.gate(transform if transform.order > 1 else None)

    def head(self, parts: Parts, *, tied: bool) -> Linear:
        """See `Weights.head`."""
        name, take = self._head_name(tied), super().take
        return parts.int8_linear(
            self._rounded(parts, "logits", lambda: self._rotation.output(name, take))
        )

    def hidden(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """See `Weights.hidden`."""
        # A copy: a view would keep the whole file in memory.
        gain = super().take("model.norm.weight").double().clone()
        return partial(self._rotation.hidden, gain=gain)

    def _rounded(self, parts: Parts, name: str, make: Callable[[], torch.Tensor]) -> Int8Weight:
        def made() -> dict[str, torch.Tensor]:
            weight = parts.int8_weight(make())
            return {"levels": weight.levels, "scales": weight.scales}

        return Int8Weight(**self._cache.get(name, made))
