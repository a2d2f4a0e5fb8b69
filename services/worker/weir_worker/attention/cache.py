"""Keys and values of all layers in fixed blocks of tokens."""

import math
import mmap
from collections.abc import Sequence

import torch

from weir_core.errors import InvalidField
from weir_worker.attention.populate import populate


class PagedKvCache:
    """The physical blocks; who owns which block is the KV manager's business.

    Blocks start as zeros and only ever hold finite values: attention reads beyond a
    sequence's end and weighs what it finds there with 0, which would not silence a NaN.

    Attributes:
        keys, values: for each layer [num_blocks, block_size, num_kv_heads, head_dim].
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        for field, value in (("num_blocks", num_blocks), ("block_size", block_size)):
            if value < 1:
                raise InvalidField(field, value, "at least 1")
        shape = (2, num_blocks, block_size, num_kv_heads, head_dim)
        layers = [_zeros(shape, dtype, device) for _ in range(num_layers)]
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.keys = [layer[0] for layer in layers]
        self.values = [layer[1] for layer in layers]
        self._key_slots = [keys.view(-1, num_kv_heads, head_dim) for keys in self.keys]
        self._value_slots = [values.view(-1, num_kv_heads, head_dim) for values in self.values]

    def clear(self, blocks: Sequence[int]) -> None:
        """Overwrite blocks with zeros."""
        index = torch.tensor(blocks, dtype=torch.int64, device=self.keys[0].device)
        for cached in (*self.keys, *self.values):
            cached.index_fill_(0, index, 0)

    def touch(self, first: int, count: int) -> None:
        """Have the system make the memory of so many blocks from `first` on; changes nothing.

        On Linux from 5.14, for a cache on CPU; elsewhere memory is there or comes when written.
        """
        for part in (*self.keys, *self.values):
            if part.device.type == "cpu":
                block_bytes = part.stride(0) * part.element_size()
                populate(part.data_ptr() + first * block_bytes, count * block_bytes)

    def write(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor
    ) -> None:
        """Store [rows, num_kv_heads, head_dim] at slots [rows], int64.

        Slot `block * block_size + offset` is a token's place in the flattened blocks.
        """
        self._key_slots[layer].index_copy_(0, slots, keys)
        self._value_slots[layer].index_copy_(0, slots, values)


def _zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device | None) -> torch.Tensor:
    """Zeros; on CPU they take memory only once they are written, block by block."""
    if device is not None and device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    pages = mmap.mmap(-1, math.prod(shape) * dtype.itemsize)
    # A block that is new in every layer would touch a huge page in each: up to 0.6 s of
    # clearing within one step, which every stream would wait for.
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(shape)
