"""Chooses the attention backend."""

from importlib.util import find_spec
from typing import Literal

import torch

from weir_worker.attention.base import AttentionBackend
from weir_worker.attention.flash import FlashAttention
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.tiled import TiledAttention

AttentionName = Literal["auto", "tiled", "gather_sdpa", "flash"]


def make_attention(
    name: AttentionName,
    device: torch.device,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
) -> AttentionBackend:
    """The backend of that name; `auto` is `tiled` on CPU, else `flash` where installed.

    Raises:
        WeirError: the backend's package is missing.
    """
    if name == "auto":
        accelerated: AttentionName = "flash" if find_spec("flash_attn") else "gather_sdpa"
        name = "tiled" if device.type == "cpu" else accelerated
    if name == "flash":
        return FlashAttention()
    if name == "gather_sdpa":
        return GatherAttention()
    return TiledAttention(num_heads, num_kv_heads, head_dim)
