"""KV of blocks that are not needed soon, in the memory of the host.

Blocks out, blocks in; which ones is decided by `ColdSessions`. On
a GPU the host's side is pinned memory and copies are queued on the current stream: a block
may be given to someone else as soon as `store` has returned, and read as soon as `restore` has,
by whatever is queued there later. Not yet run on a GPU.
"""

from collections.abc import Sequence

import torch

from weir_core.errors import InvalidField
from weir_worker.attention.cache import PagedKvCache
from weir_worker.kv.cold_kv import ColdKv

_AT_ONCE = 16  # blocks: bounds the memory on the device that a copy needs beside the cache


class HostTier:
    """See `KvStore`: a place is for one block over all layers. Single-threaded."""

    def __init__(self, cache: PagedKvCache, num_blocks: int) -> None:
        """Reserve the memory; `block_bytes * num_blocks`.

        Raises:
            InvalidField: num_blocks is not positive.
        """
        if num_blocks < 1:
            raise InvalidField("num_blocks", num_blocks, "at least 1")
        # A row for each block, whatever the layout of keys and of values in it.
        self._parts = [part.view(len(part), -1) for part in (*cache.keys, *cache.values)]
        first = self._parts[0]
        shape = (num_blocks, len(self._parts), first.shape[1])
        pinned = first.device.type == "cuda"
        self._host = torch.empty(shape, dtype=first.dtype, pin_memory=pinned)
        self._free = list(range(num_blocks))

    @classmethod
    def within(cls, cache: PagedKvCache, memory_bytes: int) -> "HostTier":
        """Reserve as many places as so much memory holds.

        Raises:
            InvalidField: not even one block fits in it.
        """
        parts = (*cache.keys, *cache.values)
        block_bytes = sum(part[0].numel() * part.element_size() for part in parts)
        if memory_bytes < block_bytes:
            bound = f"0, or at least {block_bytes}, the size of one block"
            raise InvalidField("kv_host_memory_bytes", memory_bytes, bound)
        return cls(cache, memory_bytes // block_bytes)

    @property
    def free_blocks(self) -> int:
        """Places without a block."""
        return len(self._free)

    @property
    def total_blocks(self) -> int:
        """All places."""
        return len(self._host)

    @property
    def block_bytes(self) -> int:
        """Memory of a place."""
        return self._host[0].numel() * self._host.element_size()

    def store(self, blocks: Sequence[int]) -> ColdKv | None:
        """Copy blocks of the cache out; None, and nothing changed, where they do not fit."""
        if len(blocks) > len(self._free):
            return None
        cold = ColdKv([self._free.pop() for _ in blocks])
        for begin in range(0, len(blocks), _AT_ONCE):
            index = self._index(blocks[begin : begin + _AT_ONCE])
            gathered = torch.stack([part.index_select(0, index) for part in self._parts], dim=1)
            for slot, block in zip(cold.slots[begin:], gathered, strict=False):
                self._host[slot].copy_(block, non_blocking=True)
        return cold

    def restore(self, cold: ColdKv, first: int, blocks: Sequence[int]) -> None:
        """Copy them, from number `first` on, into these blocks of the cache; they stay here.

        Raises:
            ValueError: they were dropped, or are not as many.
        """
        wanted = cold.slots[first : first + len(blocks)]
        if len(wanted) != len(blocks):
            raise ValueError(f"{len(cold.slots)} blocks are in the tier, not {first + len(blocks)}")
        device = self._parts[0].device
        for begin in range(0, len(blocks), _AT_ONCE):
            index = self._index(blocks[begin : begin + _AT_ONCE])
            slots = wanted[begin : begin + _AT_ONCE]
            copied = [self._host[slot].to(device, non_blocking=True) for slot in slots]
            for part, values in zip(self._parts, torch.stack(copied, dim=1), strict=True):
                part.index_copy_(0, index, values)

    def drop(self, cold: ColdKv) -> None:
        """Give their places back; twice is once."""
        self._free.extend(cold.slots)
        cold.slots.clear()

    def _index(self, blocks: Sequence[int]) -> torch.Tensor:
        return torch.tensor(blocks, dtype=torch.int64, device=self._parts[0].device)
