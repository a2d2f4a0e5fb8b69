"""Chooses the attention backend."""

from typing import Literal

import torch

from weir_core.errors import Reason, WeirError
from weir_worker.attention.base import AttentionBackend
from weir_worker.attention.flash import FlashAttention
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.site import AttentionSite
from weir_worker.attention.tiled import TiledAttention
from weir_worker.attention.triton_paged import TritonAttention
from weir_worker.attention.varlen import VarlenAttention

AttentionName = Literal["auto", "tiled", "gather_sdpa", "flash", "varlen", "triton", "native"]

_CUDA_ORDER: tuple[AttentionName, ...] = ("flash", "varlen", "triton", "gather_sdpa")


def make_attention(
    name: AttentionName,
    device: torch.device,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.float32,
    block_size: int = 16,
) -> AttentionBackend:
    """The backend of that name.

    `auto` is `tiled` on CPU, elsewhere the first of `flash`, `varlen`, `triton` and
    `gather_sdpa` that can serve there.

    Raises:
        WeirError: that backend cannot serve there, and why.
    """
    site = AttentionSite(
        device=device,
        dtype=dtype,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        block_size=block_size,
    )
    if name == "auto":
        name = "tiled" if device.type == "cpu" else _first_on_cuda(site)
    reason = _refusal(name, site)
    if reason is not None:
        raise WeirError(
            Reason.ENGINE_FAILED,
            f"attention_backend {name!r} cannot serve here: {reason}; 'auto' takes what can",
        )
    return _make(name, site)


def _first_on_cuda(site: AttentionSite) -> AttentionName:
    return next(name for name in _CUDA_ORDER if _refusal(name, site) is None)


def _refusal(name: AttentionName, site: AttentionSite) -> str | None:
    match name:
        case "flash":
            return FlashAttention.refusal(site)
        case "varlen":
            return VarlenAttention.refusal(site)
        case "triton":
            return TritonAttention.refusal(site)
        case "tiled" if site.device.type != "cpu" or site.dtype != torch.float32:
            return f"it runs in float32 on CPU, not in {site.dtype} on {site.device.type}"
        case "native":
            return "it needs the compiled kernels, and a model whose sizes these know"
    return None


def _make(name: AttentionName, site: AttentionSite) -> AttentionBackend:
    match name:
        case "flash":
            return FlashAttention()
        case "varlen":
            return VarlenAttention()
        case "triton":
            return TritonAttention(site)
        case "gather_sdpa":
            return GatherAttention()
    return TiledAttention(site.num_heads, site.num_kv_heads, site.head_dim)
