"""Attention by our own Triton kernel over the paged cache: CUDA without flash_attn.

Works on every head size, block size and dtype, where the other kernels want theirs. Not yet
run on a GPU: the tests hold it against the oracle in Triton's interpreter, on CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import torch

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.attention.site import AttentionSite
from weir_worker.attention.tables import PagedTables
from weir_worker.models.base import ForwardBatch, SequenceSlice

# Enough parts to fill a GPU with one sequence, and none so short that joining costs more than
# it brings.
_PARTS = 16
_LEAST_TILES = 4
_NO_WINDOW = 1 << 30


class TritonShape(NamedTuple):
    """Sizes that the kernels are compiled for.

    Attributes:
        group: query heads of a KV head.
        head_dim, padded_dim: elements of a head, and the power of two that holds them.
        short_rows, long_rows: query rows of a program, the group's heads folded in: of
            pieces that fit into one program, and of all others.
        keys: keys of a tile.
        long_warps: warps of a program of long rows.
    """

    group: int
    head_dim: int
    padded_dim: int
    short_rows: int
    long_rows: int
    keys: int
    long_warps: int

    @classmethod
    def of(cls, site: AttentionSite) -> "TritonShape":
        """Choose them: tensor cores want 16 rows at least, shared memory holds no large tiles."""
        group = site.num_heads // site.num_kv_heads
        padded = max(16, _power_of_two(site.head_dim))
        short = max(16, _power_of_two(group))
        wide = padded * site.dtype.itemsize
        keys = 64 if wide <= 256 else 32 if wide <= 512 else 16
        rows = 128 if wide <= 256 else 64 if wide <= 512 else 32
        return cls(group, site.head_dim, padded, short, max(rows, short), keys, rows // 16)


class TritonAttention:
    """One launch for the short pieces of a step, decodes above all, and one for the others."""

    name = "triton"

    def __init__(self, site: AttentionSite) -> None:
        """Import the kernels; raises ImportError where `refusal` says so."""
        from weir_worker.attention import triton_kernel

        self._kernels = triton_kernel
        self._shape = TritonShape.of(site)

    @staticmethod
    def refusal(site: AttentionSite) -> str | None:
        """Why it cannot serve there; None if it can."""
        try:
            from triton import knobs
        except ImportError as error:
            return f"the package triton cannot be imported ({error}); torch for CUDA brings it"
        if knobs.runtime.interpret:
            return None
        return site.needs_cuda()

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "TritonPlan":
        """Cut the pieces into tiles of queries."""
        device = cache.keys[0].device
        shape, slices = self._shape, batch.slices
        most = shape.short_rows // shape.group
        short = [index for index, piece in enumerate(slices) if piece.length <= most]
        tiles = _long_tiles(slices, most, shape.long_rows // shape.group)
        packed = [(index, 0) for index in short] + tiles
        on_device = torch.tensor(packed, dtype=torch.int32).to(device)
        return TritonPlan(
            rows=StepRows.of(slices, cache.block_size, device=device),
            tables=PagedTables.of(batch, cache.block_size, device),
            short=on_device[: len(short)],
            short_queries=max((slices[index].length for index in short), default=0),
            long=on_device[len(short) :],
            shape=shape,
            kernels=self._kernels,
        )

    def decode_plan(self, rows: StepRows, tables: PagedTables) -> "TritonPlan":
        """Plan for one row of every sequence over tensors whose contents may change later.

        Nothing in it depends on the contents, so that a CUDA graph of it can be replayed.
        """
        count, device = len(tables.lengths), tables.lengths.device
        short = torch.zeros(count, 2, dtype=torch.int32, device=device)
        short[:, 0] = torch.arange(count, device=device)
        return TritonPlan(
            rows=rows,
            tables=tables,
            short=short,
            short_queries=1,
            long=short[:0],
            shape=self._shape,
            kernels=self._kernels,
        )


@dataclass(slots=True, kw_only=True)
class TritonPlan:
    """See `AttentionPlan`.

    Attributes:
        rows: see there.
        tables: of the step.
        short, long: int32 [tiles, 2], sequence and number of the tile, of pieces of one tile
            and of the others.
        short_queries: the most rows of a short piece.
        shape, kernels: of the backend.
    """

    rows: StepRows
    tables: PagedTables
    short: torch.Tensor
    short_queries: int
    long: torch.Tensor
    shape: TritonShape
    kernels: ModuleType

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """See `AttentionPlan.attend`."""
        output = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        reach = window or _NO_WINDOW
        if len(self.long):
            nothing = output.new_empty(0, dtype=torch.float32)
            self._attend(q, keys, values, output, self.long, reach, 1, nothing, nothing, nothing)
        if len(self.short):
            self._attend_in_parts(q, keys, values, output, reach)
        return output.flatten(1)

    def _attend_in_parts(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        output: torch.Tensor,
        reach: int,
    ) -> None:
        shape, kv_heads = self.shape, keys.shape[2]
        size = (len(self.short), kv_heads, _PARTS, shape.short_rows)
        parts = q.new_empty((*size, shape.head_dim), dtype=torch.float32)
        peaks, sums = q.new_empty((2, *size), dtype=torch.float32)
        self._attend(q, keys, values, output, self.short, reach, _PARTS, parts, peaks, sums)
        grid = (len(self.short), kv_heads, self.short_queries * shape.group)
        self.kernels.join_kernel[grid](
            output,
            parts,
            peaks,
            sums,
            self.short,
            self.tables.first_rows,
            self.tables.lengths,
            reach,
            output.stride(0),
            HEAD_DIM=shape.head_dim,
            PADDED_DIM=shape.padded_dim,
            GROUP=shape.group,
            BLOCK_M=shape.short_rows,
            BLOCK_N=shape.keys,
            PARTS=_PARTS,
            PADDED_PARTS=_power_of_two(_PARTS),
            LEAST_TILES=_LEAST_TILES,
        )

    def _attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        output: torch.Tensor,
        tiles: torch.Tensor,
        reach: int,
        parts: int,
        mixed: torch.Tensor,
        peaks: torch.Tensor,
        sums: torch.Tensor,
    ) -> None:
        shape, tables = self.shape, self.tables
        self.kernels.attend_kernel[(len(tiles), keys.shape[2], parts)](
            output,
            mixed,
            peaks,
            sums,
            q,
            keys,
            values,
            tiles,
            tables.first_rows,
            tables.lengths,
            tables.blocks,
            shape.head_dim**-0.5,
            reach,
            q.stride(0),
            q.stride(1),
            output.stride(0),
            keys.stride(0),
            keys.stride(1),
            keys.stride(2),
            tables.blocks.stride(0),
            HEAD_DIM=shape.head_dim,
            PADDED_DIM=shape.padded_dim,
            GROUP=shape.group,
            BLOCK_M=shape.short_rows if parts > 1 else shape.long_rows,
            BLOCK_N=shape.keys,
            BLOCK_SIZE=keys.shape[1],
            PARTS=parts,
            LEAST_TILES=_LEAST_TILES,
            WIDEN=q.device.type == "cpu",
            num_warps=4 if parts > 1 else shape.long_warps,
            num_stages=2,
        )


def _long_tiles(slices: Sequence[SequenceSlice], most: int, queries: int) -> list[tuple[int, int]]:
    """The longest first: what sees the most keys takes the longest."""
    tiles = [
        (index, tile)
        for index, piece in enumerate(slices)
        if piece.length > most
        for tile in range(-(-piece.length // queries))
    ]
    return sorted(tiles, key=lambda t: slices[t[0]].start + t[1] * queries, reverse=True)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
