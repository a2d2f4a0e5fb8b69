"""Bitwise batch-invariant attention on CPU: torch's SDPA over canonical tiles.

SDPA's sums depend on the shape of the call. Here the shape that decides over a row's sums
depends on its absolute position alone: queries are cut at absolute multiples of 64, keys
reach to the end of the queries' tile (those beyond a row are masked), and the rows, with the
query heads of a KV head folded in, are padded to a multiple of 4. Chunks and batch-mates then
change nothing; only pieces with the same extent share a call.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.models.base import ForwardBatch, SequenceSlice

TILE = 64
_ROW_MULTIPLE = 4
_MOST_GATHERED = 4 << 20  # bytes of keys in one call: keeps the gather buffers small


@dataclass(slots=True)
class Tile:
    """Equally shaped query pieces that lie in one tile of their sequences.

    Attributes:
        first: their first row in computed order.
        queries: rows of each.
        extent: keys that they see, a multiple of 64.
        mask: fp32, 0 or -inf, broadcastable to [pieces, 1, folded rows, extent].
        folded: [pieces, num_kv_heads, folded rows, head_dim], zero where padded.
    """

    first: int
    queries: int
    extent: int
    mask: torch.Tensor
    folded: torch.Tensor


@dataclass(slots=True)
class TileGroup:
    """Tiles over the same gathered keys.

    Attributes:
        blocks: int64 [pieces * blocks of a piece], padded with a block of the piece's own.
        pieces: sequences in it; more than one only if each has a single tile.
        tiles: its tiles, in ascending order of extent.
    """

    blocks: torch.Tensor
    pieces: int
    tiles: list[Tile]


class TiledAttention:
    """Plans tiles, and keeps the mask and the gather buffers from step to step."""

    name = "tiled"

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        self._kv_heads = num_kv_heads
        self._head_dim = head_dim
        self._group = num_heads // num_kv_heads
        self._stairs = _stairs(self._group, TILE)
        self._scratch = torch.empty(2, 0)

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "TiledPlan":
        """Cut the step into groups of tiles; rows are computed in the groups' order."""
        firsts, row = [], 0
        for piece in batch.slices:
            firsts.append(row)
            row += piece.length
        groups: list[TileGroup] = []
        order: list[int] = []
        for members in self._grouped(batch.slices, cache.block_size):
            pieces = [batch.slices[member] for member in members]
            groups.append(self._tile_group(pieces, len(order), cache.block_size))
            for member, piece in zip(members, pieces, strict=True):
                order.extend(range(firsts[member], firsts[member] + piece.length))
        rows = StepRows.of(batch.slices, cache.block_size, order)
        self._grow_scratch(max(group.blocks.numel() for group in groups) * cache.block_size)
        return TiledPlan(rows, groups, self._scratch)

    def _grouped(self, slices: Sequence[SequenceSlice], block_size: int) -> Iterator[list[int]]:
        """Indices of the slices that may share a call, at most a bounded number each."""
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, piece in enumerate(slices):
            if piece.start // TILE == (piece.start + piece.length - 1) // TILE:
                alike[piece.length, _extent(piece)].append(index)
            else:
                yield [index]
        for (_, extent), members in alike.items():
            most = max(1, _MOST_GATHERED // (extent * self._kv_heads * self._head_dim * 4))
            for begin in range(0, len(members), most):
                yield members[begin : begin + most]

    def _tile_group(
        self, pieces: Sequence[SequenceSlice], first: int, block_size: int
    ) -> TileGroup:
        count = -(-_extent(pieces[0]) // block_size)
        blocks = [block for piece in pieces for block in _padded(piece.block_table, count)]
        if len(pieces) > 1:
            tiles = [self._tile(first, [piece.start for piece in pieces], pieces[0].length)]
        else:
            tiles = list(self._tiles_of(pieces[0], first))
        return TileGroup(torch.tensor(blocks), len(pieces), tiles)

    def _tiles_of(self, piece: SequenceSlice, first: int) -> Iterator[Tile]:
        position, end = piece.start, piece.start + piece.length
        while position < end:
            stop = min(end, (position // TILE + 1) * TILE)
            yield self._tile(first + position - piece.start, [position], stop - position)
            position = stop

    def _tile(self, first: int, positions: Sequence[int], queries: int) -> Tile:
        extent = (positions[0] // TILE + 1) * TILE
        folded = -(-queries * self._group // _ROW_MULTIPLE) * _ROW_MULTIPLE
        shape = (len(positions), self._kv_heads, folded, self._head_dim)
        mask = self._mask([position % TILE for position in positions], queries, folded, extent)
        return Tile(first, queries, extent, mask, torch.zeros(shape))

    def _mask(self, offsets: list[int], queries: int, folded: int, extent: int) -> torch.Tensor:
        if extent > self._stairs.shape[1]:
            self._stairs = _stairs(self._group, 2 * extent)
        stairs = self._stairs[:, self._stairs.shape[1] - extent :]
        if queries == 1:
            steps = torch.tensor([offset * self._group for offset in offsets])
            return stairs[steps][:, None, None]
        begins = [offset * self._group for offset in offsets]
        return torch.stack([stairs[begin : begin + folded] for begin in begins])[:, None]

    def _grow_scratch(self, tokens: int) -> None:
        needed = tokens * self._kv_heads * self._head_dim
        if needed > self._scratch.shape[1]:
            self._scratch = torch.empty(2, needed)


@dataclass(slots=True)
class TiledPlan:
    """See `AttentionPlan`."""

    rows: StepRows
    groups: list[TileGroup]
    scratch: torch.Tensor

    def attend(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """See `AttentionPlan.attend`."""
        output = torch.empty(q.shape)
        for group in self.groups:
            k = self._gather(group, keys, self.scratch[0])
            v = self._gather(group, values, self.scratch[1])
            for tile in group.tiles:
                _attend(tile, q, k, v, output)
        return output.flatten(1)

    def _gather(
        self, group: TileGroup, source: torch.Tensor, scratch: torch.Tensor
    ) -> torch.Tensor:
        """Contiguous [pieces, num_kv_heads, tokens, head_dim] of the group, a view."""
        blocks = source.flatten(1)
        target = scratch[: group.blocks.numel() * blocks.shape[1]].view(-1, blocks.shape[1])
        torch.index_select(blocks, 0, group.blocks, out=target)
        return target.view(group.pieces, -1, *source.shape[2:]).transpose(1, 2)


def _attend(
    tile: Tile, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, output: torch.Tensor
) -> None:
    """Compute the tile's rows of `output`, [rows, num_heads, head_dim]."""
    pieces, kv_heads, _, head_dim = tile.folded.shape
    group = q.shape[1] // kv_heads
    used = tile.queries * group
    rows = slice(tile.first, tile.first + pieces * tile.queries)
    unfolded = (pieces, tile.queries, kv_heads, group, head_dim)
    folded = (pieces, kv_heads, tile.queries, group, head_dim)
    tile.folded[:, :, :used].view(folded).copy_(q[rows].view(unfolded).transpose(1, 2))
    attended = functional.scaled_dot_product_attention(
        tile.folded, k[:, :, : tile.extent], v[:, :, : tile.extent], attn_mask=tile.mask
    )
    output[rows].view(unfolded).copy_(attended[:, :, :used].view(folded).transpose(1, 2))


def _stairs(group: int, width: int) -> torch.Tensor:
    """The mask of a whole tile of folded rows whose last key is the last column.

    Every mask of a tile or of a part of one is a window of it. A few rows are added so that
    the window of a padded part stays inside.
    """
    rows = torch.arange(TILE * group + _ROW_MULTIPLE - 1) // group
    seen = torch.arange(width) - (width - TILE) <= rows[:, None]
    return torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))


def _extent(piece: SequenceSlice) -> int:
    return -(-(piece.start + piece.length) // TILE) * TILE


def _padded(table: Sequence[int], count: int) -> list[int]:
    blocks = list(table[:count])
    return blocks + blocks[:1] * (count - len(blocks))
