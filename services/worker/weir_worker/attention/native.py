"""Attention on CPU by the compiled kernel, which reads the paged cache where it lies.

A query's sums depend on its own position alone (see `kernels/csrc/attention.cpp`), so that
batch-mates and chunks change no bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt
import torch

from weir_core.errors import InvalidField
from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.kernels.library import STEP, Kernels, check, check_heads
from weir_worker.models.base import ForwardBatch, SequenceSlice

# Rows of a sequence that one thread computes together: enough of them to share what it reads.
_ROWS = 32


class NativeKvCache(PagedKvCache):
    """A cache in the kernel's layout, in which 16 keys of a head are neighbours.

    In 16 bits it takes half the memory, of which a step reads all that its sequences hold; the
    kernel computes in 32 bits with what it finds there.

    Attributes:
        half: whether its numbers are float16, not float32.
        keys: for each layer [num_blocks, num_kv_heads, head_dim, block_size].
        values: for each layer [num_blocks, num_kv_heads, block_size, head_dim].
    """

    def __init__(
        self,
        kernels: Kernels,
        *,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Make it, zeroed; dtype is float32 or float16.

        Raises:
            InvalidField: a size is not positive, or not a multiple of 16 where it must be.
        """
        for field, value in (("block_size", block_size), ("head_dim", head_dim)):
            if value % STEP:
                raise InvalidField(field, value, f"a multiple of {STEP} for attention 'native'")
        super().__init__(
            num_layers=num_layers,
            num_blocks=num_blocks,
            block_size=block_size,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            dtype=dtype,
        )
        self.half = dtype == torch.float16
        by_head = (num_blocks, num_kv_heads)
        self.keys = [keys.view(*by_head, head_dim, block_size) for keys in self.keys]
        self.values = [values.view(*by_head, block_size, head_dim) for values in self.values]
        self._store = kernels.library.weir_store

    def write(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor
    ) -> None:
        """See `PagedKvCache.write`; keys and values may be parts of wider rows."""
        check_heads(keys, "keys")
        check_heads(values, "values")
        shape = (slots.shape[0], self.num_kv_heads, self.head_dim)
        if keys.shape != shape or values.shape != shape:
            given = f"{list(keys.shape)} and {list(values.shape)}"
            raise InvalidField("keys, values", given, f"{list(shape)} each")
        self._store(
            keys.data_ptr(),
            keys.stride(0),
            values.data_ptr(),
            values.stride(0),
            slots.data_ptr(),
            *shape,
            self.block_size,
            self.half,
            self.keys[layer].data_ptr(),
            self.values[layer].data_ptr(),
            torch.get_num_threads(),
        )


class NativeAttention:
    """See `AttentionBackend`; works over a `NativeKvCache`."""

    name = "native"

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "NativePlan":
        """Cut the step into tasks of neighbouring rows, the longest first."""
        rows = StepRows.of(batch.slices, cache.block_size)
        lengths = [-(-(p.start + p.length) // cache.block_size) for p in batch.slices]
        tables = list(
            chain.from_iterable(
                p.block_table[:length] for p, length in zip(batch.slices, lengths, strict=True)
            )
        )
        _check_blocks(tables, sum(lengths), cache.num_blocks)
        begins = [0, *accumulate(lengths)]
        return NativePlan(
            rows,
            self._kernels,
            torch.tensor(tables, dtype=torch.int32),
            torch.from_numpy(_tasks(batch.slices, begins)),
            rows.positions.shape[0],
            cache.num_blocks,
            max(piece.start + piece.length for piece in batch.slices) - 1,
        )


@dataclass(slots=True)
class NativePlan:
    """See `AttentionPlan`.

    Attributes:
        rows: see there.
        kernels: compute.
        tables: int32, the blocks of the sequences, one sequence after the other.
        tasks: int64 [tasks, 4]: first row, rows, position of the first, begin in `tables`.
        num_rows: of the step.
        num_blocks: of the cache, above every number in `tables`.
        last_position: the largest of the step.
    """

    rows: StepRows
    kernels: Kernels
    tables: torch.Tensor
    tasks: torch.Tensor
    num_rows: int
    num_blocks: int
    last_position: int

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """See `AttentionPlan.attend`; the layout of keys and values is `NativeKvCache`'s."""
        num_blocks, kv_heads, head_dim, block_size = keys.shape
        num_rows, heads, width = q.shape
        check_heads(q, "q")
        if keys.shape[0] != self.num_blocks or not keys.is_contiguous():
            raise InvalidField("keys", list(keys.shape), f"{self.num_blocks} contiguous blocks")
        if keys.dtype not in (torch.float32, torch.float16):
            raise InvalidField("keys", keys.dtype, "torch.float32 or torch.float16")
        check(values, "values", num_blocks, kv_heads, block_size, head_dim, dtype=keys.dtype)
        if num_rows != self.num_rows or width != head_dim or heads % kv_heads:
            bound = f"[{self.num_rows}, a multiple of {kv_heads}, {head_dim}]"
            raise InvalidField("q", list(q.shape), bound)
        out = torch.empty(num_rows, heads * head_dim)
        self.kernels.library.weir_attend(
            q.data_ptr(),
            q.stride(0),
            keys.data_ptr(),
            values.data_ptr(),
            self.tables.data_ptr(),
            self.tasks.data_ptr(),
            self.tasks.shape[0],
            heads,
            kv_heads,
            head_dim,
            block_size,
            window or 0,
            keys.dtype == torch.float16,
            out.data_ptr(),
            torch.get_num_threads(),
        )
        return out


def _tasks(slices: Sequence[SequenceSlice], begins: Sequence[int]) -> npt.NDArray[np.int64]:
    """[tasks, 4] in descending order of work."""
    tasks = []
    row = 0
    for piece, begin in zip(slices, begins, strict=False):
        for done in range(0, piece.length, _ROWS):
            count = min(_ROWS, piece.length - done)
            tasks.append((row + done, count, piece.start + done, begin))
        row += piece.length
    tasks.sort(key=lambda task: -task[1] * (task[1] + task[2]))
    return np.array(tasks, dtype=np.int64)


def _check_blocks(tables: Sequence[int], expected: int, num_blocks: int) -> None:
    if len(tables) != expected:
        raise InvalidField("block_table", f"{len(tables)} blocks", f"{expected} for the step")
    if min(tables) < 0 or max(tables) >= num_blocks:
        bad = min(tables) if min(tables) < 0 else max(tables)
        raise InvalidField("block_table", bad, f"blocks 0 to {num_blocks - 1}")
