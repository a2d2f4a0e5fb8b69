"""How far each attention backend's logits are from plain fp32 attention's."""

import random

import torch

from bench.gpu.shape import ModelShape, RandomWeights
from weir_core.errors import WeirError
from weir_worker.attention import AttentionName
from weir_worker.models.base import ForwardBatch, SequenceSlice
from weir_worker.models.llama import LlamaModel

# (start, length): prompts whole and in chunks, decodes at the edges of blocks and tiles.
_STEPS = (
    ((0, 130), (0, 16), (0, 255), (0, 700)),
    ((130, 1), (16, 40), (255, 1), (700, 63)),
    ((131, 1), (56, 1), (256, 1), (763, 1)),
)
_BLOCKS = {"flash": 256}


def load(
    shape: ModelShape,
    attention: AttentionName,
    dtype: torch.dtype,
    device: torch.device,
    block_size: int = 16,
) -> LlamaModel:
    """A model of random weights. Raises WeirError where the backend cannot serve."""
    config = shape.config(dtype.itemsize)
    weights = RandomWeights(config, dtype, device)
    return LlamaModel(
        config, weights, device=device, dtype=dtype, attention=attention, block_size=block_size
    )


def max_logit_errors(
    shape: ModelShape,
    device: torch.device,
    backends: list[tuple[AttentionName, torch.dtype]],
) -> dict[str, float | None]:
    """The largest difference of any logit, by backend and dtype; None: it cannot serve here."""
    expected = _logits(load(shape, "gather_sdpa", torch.float32, device), 16)
    figures: dict[str, float | None] = {}
    for name, dtype in backends:
        label = name if dtype != torch.float32 else f"{name}_fp32"
        figures[label] = None
        block_size = _BLOCKS.get(name, 16)
        try:
            model = load(shape, name, dtype, device, block_size)
        except WeirError as error:
            print(f"{label}: {error.message}", flush=True)
            continue
        figures[label] = float(f"{(_logits(model, block_size) - expected).abs().max():.3g}")
        del model
    return figures


def _logits(model: LlamaModel, block_size: int) -> torch.Tensor:
    """Of all rows of all steps, over blocks in random order."""
    need = [-(-max(start + length for start, length in way) // block_size) for way in _ways()]
    blocks = list(range(sum(need)))
    random.Random(0).shuffle(blocks)
    tables = [[blocks.pop() for _ in range(count)] for count in need]
    model.allocate_kv(sum(need), block_size)
    parts = []
    for step in _STEPS:
        tokens, slices = [], []
        for sequence, (start, length) in enumerate(step):
            tokens += [(7919 * at + 131 * sequence) % 320 for at in range(start, start + length)]
            slices.append(SequenceSlice(start, length, tables[sequence]))
        parts.append(model.forward(ForwardBatch(tokens, slices, range(len(tokens)))).float().cpu())
    return torch.cat(parts)


def _ways() -> list[tuple[tuple[int, int], ...]]:
    return list(zip(*_STEPS, strict=True))
