"""Weights of a turned model, for linear layers of 8 bits."""

from pathlib import Path

import torch

from weir_worker.linear import Linear
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.parts import Gate, Parts
from weir_worker.models.rotation import Rotation
from weir_worker.models.weights import Weights


class RotatedWeights(Weights):
    """See `Weights` and `Rotation`; all linear layers are of 8 bits, the rest is fp32."""

    int8 = True

    def __init__(self, folder: Path, config: LlamaConfig) -> None:
        """Open the files. Raises ModelFileError, as `Weights` does."""
        super().__init__(folder, config.layout, torch.float32, torch.device("cpu"))
        self._rotation = Rotation(config)

    def take(self, name: str) -> torch.Tensor:
        """See `Weights.take`."""
        return self._rotation.turned(name, super().take)

    def embedding(self) -> torch.Tensor:
        """See `Weights.embedding`."""
        return self.take("model.embed_tokens.weight")

    def linear(self, parts: Parts, names: list[str]) -> Linear:
        """See `Weights.linear`."""
        return parts.int8_linear(self.weight(names), self.bias(names))

    def gate(self, parts: Parts) -> Gate:
        """See `Weights.gate`."""
        transform = self._rotation.mlp
        return parts.gate(transform if transform.order > 1 else None)

    def head(self, parts: Parts, *, tied: bool) -> Linear:
        """See `Weights.head`."""
        return parts.int8_linear(self._rotation.output(self._head_name(tied), super().take))
