"""How much memory a model takes, before it is loaded."""

import math
from dataclasses import dataclass

from weir_worker.models.check import CheckedModel

_EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of weights and of keys and values; activations and the process come on top.

    Attributes:
        fp32: weights in fp32.
        half: weights in fp16 or bf16.
        int8: matrices in int8 with a scale a row, embedding and norms in fp32.
        kv_per_token: keys and values of one token in fp32; half of it in half precision.
    """

    fp32: int
    half: int
    int8: int
    kv_per_token: int

    @classmethod
    def of(cls, model: CheckedModel) -> "MemoryEstimate":
        """Count the tensors of a model."""
        config, shapes = model.config, model.shapes
        count = sum(math.prod(shape) for shape in shapes.values())
        matrices = [shape for name, shape in shapes.items() if _is_matrix(name, shape)]
        if "lm_head.weight" not in shapes:  # then the embedding's numbers are a matrix too
            matrices.append(shapes[_EMBEDDING])
            count += math.prod(shapes[_EMBEDDING])
        packed = sum(math.prod(shape) for shape in matrices)
        scales = sum(shape[0] for shape in matrices)
        return cls(
            fp32=4 * count,
            half=2 * count,
            int8=4 * (count - packed) + packed + 4 * scales,
            kv_per_token=config.kv_bytes_per_token,
        )

    def kv(self, contexts: int, length: int) -> int:
        """Bytes of keys and values, fp32, of so many sequences of so many tokens."""
        return self.kv_per_token * contexts * length


def _is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and name != _EMBEDDING
