"""Which part of each tensor a rank holds."""

import dataclasses

import torch

from weir_core.errors import InvalidField
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.parallel.ranks import Ranks

_BY_OUTPUTS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head")
_BY_INPUTS = ("o_proj", "down_proj")
_BY_VOCABULARY = ("embed_tokens", "lm_head")


def cut(name: str, shape: tuple[int, ...], ranks: Ranks) -> tuple[slice, ...]:
    """The rank's part of a tensor of the Llama family, by its Hugging Face name."""
    part, kind = name.split(".")[-2:]
    whole = tuple(slice(0, size) for size in shape)
    if part in _BY_OUTPUTS:
        return (ranks.part(shape[0]), *whole[1:])
    if part in _BY_INPUTS and kind == "weight":
        return (whole[0], ranks.part(shape[1]))
    return whole


def fitted(name: str, tensor: torch.Tensor, total: int, ranks: Ranks) -> torch.Tensor:
    """What the rank computes with: all parts of a vocabulary have as many rows, padded with 0.

    A bias that is added to a sum over the ranks is added by the first alone.
    """
    part, kind = name.split(".")[-2:]
    if part in _BY_VOCABULARY:
        missing = -(-total // ranks.size) - len(tensor)
        return torch.nn.functional.pad(tensor, (0, 0, 0, missing)) if missing else tensor
    if part in _BY_INPUTS and kind == "bias" and ranks.rank:
        return torch.zeros_like(tensor)
    return tensor


def local_config(config: LlamaConfig, ranks: Ranks) -> LlamaConfig:
    """The sizes of a rank's part of every layer.

    Raises:
        InvalidField: heads or the width of the MLP cannot be divided by the ranks.
    """
    counts = {
        "attention heads": config.num_heads,
        "KV heads": config.num_kv_heads,
        "columns of the MLP": config.intermediate_size,
    }
    for what, count in counts.items():
        if count % ranks.size:
            bound = f"a divisor of the {count} {what} of {config.name}"
            raise InvalidField("tensor_parallel_size", ranks.size, bound)
    return dataclasses.replace(
        config,
        num_heads=config.num_heads // ranks.size,
        num_kv_heads=config.num_kv_heads // ranks.size,
        intermediate_size=config.intermediate_size // ranks.size,
    )
