"""What an attention backend is chosen for."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSite:
    """Device, sizes and cache that a backend has to serve.

    Attributes:
        device, dtype: of queries and cache.
        num_heads, num_kv_heads, head_dim: attention shape.
        block_size: tokens of a block of the cache.
    """

    device: torch.device
    dtype: torch.dtype
    num_heads: int
    num_kv_heads: int
    head_dim: int
    block_size: int

    def needs_half(self) -> str | None:
        """The refusal of kernels that know no fp32."""
        if self.dtype in (torch.float16, torch.bfloat16):
            return None
        return f"dtype is {str(self.dtype).removeprefix('torch.')}; it wants bfloat16 or float16"

    def needs_cuda(self) -> str | None:
        """The refusal of kernels for CUDA."""
        return None if self.device.type == "cuda" else f"it runs on CUDA, not on {self.device.type}"
