"""A paged cache of random numbers, and attention over it."""

import random

import torch

from weir_worker.attention import AttentionBackend, PagedKvCache
from weir_worker.models.base import ForwardBatch, SequenceSlice

DIM = 16


def paged_cache(
    blocks: int,
    block_size: int,
    kv_heads: int,
    dtype: torch.dtype = torch.float32,
    head_dim: int = DIM,
) -> PagedKvCache:
    cache = PagedKvCache(
        num_layers=1,
        num_blocks=blocks,
        block_size=block_size,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=dtype,
    )
    generator = torch.Generator().manual_seed(1)
    for tensor in (cache.keys[0], cache.values[0]):
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return cache


def paged_batch(slices: list[tuple[int, int]], block_size: int, blocks: int) -> ForwardBatch:
    """Slices (start, length) over random disjoint blocks."""
    free = list(range(blocks))
    random.Random(2).shuffle(free)
    pieces = []
    for start, length in slices:
        count = -(-(start + length) // block_size)
        pieces.append(SequenceSlice(start, length, [free.pop() for _ in range(count)]))
    rows = sum(length for _, length in slices)
    return ForwardBatch([0] * rows, pieces, [])


def attend(
    backend: AttentionBackend,
    batch: ForwardBatch,
    cache: PagedKvCache,
    q: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The attention of the batch's rows, in the batch's order."""
    plan = backend.plan(batch, cache)
    computed = plan.attend(plan.rows.arrange(q), cache.keys[0], cache.values[0], window)
    return computed[plan.rows.locate(torch.arange(len(q)))].clone()


def queries(
    batch: ForwardBatch, heads: int, dtype: torch.dtype = torch.float32, head_dim: int = DIM
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(len(batch.token_ids), heads, head_dim, generator=generator).to(dtype)
